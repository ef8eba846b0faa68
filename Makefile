# make help lists the targets. CFLAGS, LDFLAGS and PREFIX are yours to set; SAN=1 builds with
# AddressSanitizer and UndefinedBehaviorSanitizer into a folder of its own.
VERSION := 0.1.0
PREFIX ?= /usr/local
CFLAGS ?= -O2 -g
WERROR ?= -Werror
B := build$(if $(SAN),/san)

ifdef SAN
SANFL := -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined
else
HARDEN := -D_FORTIFY_SOURCE=2
endif
HARDEN += -fPIE -fstack-protector-strong
HARDEN_LD := -pie -Wl,-z,relro,-z,now
LIBS := libwebsockets libuv hiredis libpq jansson yajl libcrypto
OUR_CFLAGS := -std=c11 -D_GNU_SOURCE -DWSONCE_VERSION='"$(VERSION)"' -Wall -Wextra -Wshadow -Wformat=2 $(WERROR) \
	-I$B/text -MMD -MP $(HARDEN) $(SANFL) $(shell pkg-config --cflags $(LIBS) 2>/dev/null)
OUR_LIBS := $(shell pkg-config --libs $(LIBS) 2>/dev/null) -lunistring

SRC := $(wildcard listener/*.c)
OBJ := $(SRC:%.c=$B/%.o)
TEXT := $(patsubst lua/%.lua,$B/text/%.lua.h,$(wildcard lua/*.lua)) $(patsubst sql/%.sql,$B/text/%.sql.h,$(wildcard sql/*.sql))

all: $B/wsonce

$B/wsonce: $(OBJ)
	$(CC) $(SANFL) $(HARDEN_LD) $(LDFLAGS) -o $@ $^ $(OUR_LIBS)

$B/%.o: %.c $(TEXT) Makefile
	@mkdir -p $(@D)
	$(CC) $(OUR_CFLAGS) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# lua/x.lua becomes the C string LUA_X, sql/x.sql becomes SQL_X, so each text lives in one place.
define embed
@mkdir -p $(@D)
{ printf '#define %s_%s \\\n' $(1) $$(echo $(*F) | tr a-z- A-Z_); sed -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n" \\/' $<; echo '""'; } >$@.part
mv $@.part $@
endef
$B/text/%.lua.h: lua/%.lua
	$(call embed,LUA)
$B/text/%.sql.h: sql/%.sql
	$(call embed,SQL)

-include $(OBJ:.o=.d)
.SECONDARY: $(TEXT)
.DELETE_ON_ERROR:
.PHONY: all
