/* Everything that integration tests include: this library, Criterion, and the usual headers of the C library. */
#ifndef SUPPORT_SUPPORT_H
#define SUPPORT_SUPPORT_H

#include "ack.h"
#include "bouncer.h"
#include "certificate.h"
#include "claims.h"
#include "database.h"
#include "feed.h"
#include "fleet.h"
#include "frame.h"
#include "http.h"
#include "listener.h"
#include "peer.h"
#include "port.h"
#include "postgres.h"
#include "process.h"
#include "receiver.h"
#include "redisd.h"
#include "relay.h"
#include "run.h"
#include "suite.h"
#include "wait.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#endif
