/* How errors of the server are classified: their cause, and whether to try again. */
#include "postgres/sqlstate.h"
#include "unit.h"

#define INDEX_WAIT "while inserting index tuple (0,3) in relation \"events_event_id_key\""
#define BLOCK      "SQL statement \"LOCK TABLE t\"\nPL/pgSQL function inline_code_block line 1 at SQL statement"
#define FUNCTION   "PL/pgSQL function public.handle(text,text,jsonb) line 3 at RAISE"

struct error {
	const char *sqlstate;
	const char *context;
	enum postgres_result result;
};

static const struct error errors[] = {
	{NULL, NULL, POSTGRES_UNKNOWN},
	{"22P05", "unnamed portal parameter $3", POSTGRES_BAD_VALUE},
	{"0A000", "unnamed portal parameter $3", POSTGRES_BAD_VALUE}, /* an escape in a database in SQL_ASCII */
	{"0A000", NULL, POSTGRES_TROUBLE},
	{"22P02", NULL, POSTGRES_BAD_ROW},
	{"2200H", NULL, POSTGRES_TROUBLE},
	{"2200H", FUNCTION, POSTGRES_TROUBLE},
	{"23514", NULL, POSTGRES_BAD_ROW},
	{"P0001", FUNCTION, POSTGRES_BAD_ROW},
	{"54000", NULL, POSTGRES_TROUBLE},
	{"54000", FUNCTION, POSTGRES_TROUBLE},
	{"54001", FUNCTION, POSTGRES_BAD_ROW},
	{"54000", "unnamed portal parameter $3", POSTGRES_BAD_VALUE},
	{"XX000", FUNCTION, POSTGRES_BAD_ROW},
	{"55000", "SQL function \"f\" statement 1", POSTGRES_BAD_ROW},
	{"57014", FUNCTION, POSTGRES_BAD_ROW},
	{"40P01", FUNCTION, POSTGRES_CONFLICT},
	{"55P03", FUNCTION, POSTGRES_TROUBLE},
	{"55P03", INDEX_WAIT, POSTGRES_TROUBLE},
	{"57014", INDEX_WAIT, POSTGRES_TROUBLE},
	{"57014", "beim Einfügen von Indextupel (10,3) in Relation »events_event_id_key«", POSTGRES_TROUBLE},
	{"57014", "while locking tuple (12,40) in relation \"t\"\n" FUNCTION, POSTGRES_TROUBLE},
	{"57014", NULL, POSTGRES_TROUBLE},
	{"57014", BLOCK, POSTGRES_TROUBLE},
	{"57014", "PL/pgSQL-Funktion inline_code_block Zeile 1 bei SQL-Anweisung", POSTGRES_TROUBLE},
	{"57014", FUNCTION "\n" BLOCK, POSTGRES_BAD_ROW},
	{"57014", BLOCK "\n" FUNCTION, POSTGRES_BAD_ROW},
	{"53100", FUNCTION, POSTGRES_TROUBLE},
	{"40001", FUNCTION, POSTGRES_CONFLICT},
	{"40001", NULL, POSTGRES_CONFLICT},
	{"40001", "while updating tuple (0,1) in relation \"t\"\n" FUNCTION, POSTGRES_CONFLICT},
	{"53100", NULL, POSTGRES_TROUBLE},
	{"58030", NULL, POSTGRES_TROUBLE},
	{"57P01", FUNCTION, POSTGRES_TROUBLE},
	{"42P01", NULL, POSTGRES_TROUBLE},
	{"42P01", FUNCTION, POSTGRES_BAD_ROW},
	{"25006", FUNCTION, POSTGRES_TROUBLE},
};

Test(sqlstate, an_error_is_a_rows_own_only_where_a_function_was_at_work)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		const struct error *e = &errors[i];

		cr_expect_eq(sqlstate_judge(e->sqlstate, e->context), e->result, "%s in %s is %d", e->sqlstate,
			     e->context, sqlstate_judge(e->sqlstate, e->context));
	}
}

Test(sqlstate, what_waits_for_a_row_or_is_in_a_function_says_nothing_of_other_rows)
{
	cr_expect(sqlstate_is_blocked(INDEX_WAIT "\nCOPY events, line 7"));
	cr_expect(sqlstate_is_local(INDEX_WAIT));
	cr_expect(sqlstate_is_local(FUNCTION));
	cr_expect_not(sqlstate_is_local(BLOCK));
	cr_expect_not(sqlstate_is_blocked(FUNCTION));
	cr_expect_not(sqlstate_is_local("COPY events, line 7"));
	cr_expect_not(sqlstate_is_local(NULL));
}

/* As PostgreSQL 15 says it in de, es, fr, it, ja, ko, ru, sv, uk and zh_CN. */
static const char *const parameters[] = {
	"unbenanntes Portal Parameter $3",   "portal sin nombre, parámetro 3",  "paramètre de portail non nommé $3",
	"parametro portale senza nome $3",   "無名ポータルパラメータ $3",       "이름없는 포탈 $3 매개 변수",
	"неименованный портал, параметр $3", "ej namngiven portalparameter $3", "параметр порталу без назви $3",
};

static const char *const functions[] = {
	"SQL-Funktion »f« Anweisung 1",
	"función SQL «f» en la sentencia 1",
	"fonction SQL « f », instruction 1",
	"funzione SQL \"f\" istruzione 1",
	"SQL関数\"f\"の行番号 1",
	"SQL 함수 \"f\"의 문 1",
	"SQL-функция \"f\", оператор 1",
	"SQL-funktion \"f\" sats 1",
	"SQL функція \"f\" оператор 1",
	"SQL 函数 \"f\" 语句 1",
	"在RAISE的第3行的PL/pgSQL函数f(jsonb)",
};

static const char *const waits[] = {
	"mientras se insertaba la tupla de índice (0,3) en la relación «t»",
	"lors de l'insertion de l'enregistrement (0, 3) de l'index dans la relation « t »",
	"リレーション\"t\"のインデックスタプル(0,3)の挿入中",
	"0,3 튜플 인덱스(해당 릴레이션 \"t\")를 삽입하는 중에 발생",
	"在往关系\"t\"中插入索引元组 (0,3) 时",
};

static const char *const statements[] = {
	"SQL-Anweisung »SELECT 1 FROM ONLY \"public\".\"t\" x WHERE id = $1 FOR KEY SHARE OF x«",
	"instruction SQL « SELECT $1 »",
	"COPY events, ligne 7",
	"COPY events, Zeile 7, Spalte payload",
	"JSON-Daten, Zeile 1: {\"a\": $1",
	"données JSON, ligne 1 : 7",
};

Test(sqlstate, a_context_is_understood_in_any_language)
{
	for (size_t i = 0; i < sizeof(parameters) / sizeof(*parameters); i++) {
		cr_expect_eq(sqlstate_judge("22P05", parameters[i]), POSTGRES_BAD_VALUE, "%s", parameters[i]);
		cr_expect_not(sqlstate_is_local(parameters[i]), "%s", parameters[i]);
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
		cr_expect_eq(sqlstate_judge("57014", functions[i]), POSTGRES_BAD_ROW, "%s", functions[i]);
	for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++)
		cr_expect(sqlstate_is_blocked(waits[i]), "%s", waits[i]);
	for (size_t i = 0; i < sizeof(statements) / sizeof(*statements); i++) {
		cr_expect_eq(sqlstate_judge("22P05", statements[i]), POSTGRES_BAD_ROW, "%s", statements[i]);
		cr_expect_not(sqlstate_is_local(statements[i]), "%s", statements[i]);
	}
}

/* As log_parameter_max_length_on_error has them, also in de, fr and ja. The second one has a value of two lines. */
static const char *const values[] = {
	"unnamed portal with parameters: $1 = '{a}', $2 = '{\"(1, 2) PL/SQL\"}', $3 = 'web-1'",
	"unnamed portal with parameters: $1 = '{a\nb}', $2 = '{t}', $3 = 'web-1'",
	"unbenanntes Portal mit Parametern: $1 = '{a}', $2 = '{t}'",
	"portail non nommé avec les paramètres : « $1 = '{a}', $2 = '{t}' »",
	"パラメータを持つ無名ポータル: $1 = '{a}', $2 = '{t}'",
};

Test(sqlstate, the_values_of_a_statement_say_nothing)
{
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		cr_expect_eq(sqlstate_judge("22003", values[i]), POSTGRES_BAD_ROW, "%s", values[i]);
		cr_expect_eq(sqlstate_doubt("23502", values[i]), DOUBT_NULL, "%s", values[i]);
		cr_expect_not(sqlstate_is_local(values[i]), "%s", values[i]);
	}
	cr_expect_eq(sqlstate_judge("22P05", "unnamed portal parameter $1 = 'a: $x'"), POSTGRES_BAD_VALUE);
	cr_expect_eq(sqlstate_judge("22P05", "unnamed portal parameter $3 = 'in SQL, COPY or PL/I'"),
		     POSTGRES_BAD_VALUE);
}

Test(sqlstate, a_statement_with_numbers_does_not_wait_for_a_row)
{
	static const char context[] = "SQL statement \"INSERT INTO audit VALUES (x::numeric(10, 2))\"\n"
				      "PL/pgSQL function f() line 3 at SQL statement";

	cr_expect_not(sqlstate_is_blocked(context));
	cr_expect_eq(sqlstate_judge("57014", context), POSTGRES_BAD_ROW);
	cr_expect_not(sqlstate_is_of_table(&(struct sqlstate_violation){.sqlstate = "23514"}, context));
}

struct trouble {
	const char *sqlstate;
	const char *context;
	enum postgres_blame blame;
};

static const struct trouble troubles[] = {
	{"40P01", FUNCTION, POSTGRES_BLAME_NOBODY},
	{"55P03", FUNCTION, POSTGRES_BLAME_NOBODY},
	{"53100", FUNCTION, POSTGRES_BLAME_OPEN},
	{"40001", FUNCTION, POSTGRES_BLAME_ROW},
	{"40001", NULL, POSTGRES_BLAME_NOBODY},
	{"40001", "while updating tuple (0,1) in relation \"t\"\n" FUNCTION, POSTGRES_BLAME_NOBODY},
	{"53100", NULL, POSTGRES_BLAME_OPEN},
	{"54000", NULL, POSTGRES_BLAME_OPEN},
	{"54000", FUNCTION, POSTGRES_BLAME_OPEN},
	{"58030", NULL, POSTGRES_BLAME_OPEN},
	{"57P01", FUNCTION, POSTGRES_BLAME_NOBODY},
	{"2200H", NULL, POSTGRES_BLAME_NOBODY},
	{"2200H", FUNCTION, POSTGRES_BLAME_ROW},
	{"42P01", NULL, POSTGRES_BLAME_OPEN},
	{"25006", FUNCTION, POSTGRES_BLAME_NOBODY},
};

Test(sqlstate, trouble_is_a_rows_own_if_a_function_raised_it_and_nobodys_if_another_transaction_did)
{
	for (size_t i = 0; i < sizeof(troubles) / sizeof(*troubles); i++) {
		const struct trouble *t = &troubles[i];

		cr_expect_eq(sqlstate_blame(t->sqlstate, t->context), t->blame, "%s in %s is %d", t->sqlstate,
			     t->context, sqlstate_blame(t->sqlstate, t->context));
	}
}

struct violation {
	struct sqlstate_violation of;
	const char *context;
	bool is_of_table;
};

static const struct violation violations[] = {
	{{"23505", "events_pkey", "Key (id)=(7) already exists.", NULL, NULL}, "COPY events, line 7", true},
	{{"23505", "events_pkey", "Schlüssel »(id)=(7)« existiert bereits.", NULL, NULL}, NULL, true},
	{{"23505", "events_pkey", "Key (id)=(7) already exists.", NULL, NULL}, FUNCTION, false},
	{{"23505", "events_event_id_key", "Key (event_id)=((id)=() already exists.", NULL, NULL}, NULL, false},
	{{"23505", "orders_key", NULL, NULL, NULL}, NULL, false},
	{{"23505", "events_pkey", "Key (\"id\")=(7) already exists.", NULL, NULL}, NULL, true},
	{{"23505", "k", "Key (received_at, id)=(2026-11-27, 7) already exists.", NULL, NULL}, NULL, true},
	{{"23505", "k", "Key (event_type, id)=(a, 7) already exists.", NULL, NULL}, NULL, false},
	{{"23505", "k", "Key (id, event_type)=(7, a) already exists.", NULL, NULL}, NULL, false},
	{{"23505", "k", "Key ((payload ->> 'id'::text))=(7) already exists.", NULL, NULL}, NULL, false},
	{{"23505", "k", "Key (id", NULL, NULL}, NULL, false},
	{{"23505", "k", "Key (", NULL, NULL}, NULL, false},
	{{"23503", "k", "Key (source)=(a) is not present in table \"b\".", NULL, NULL}, NULL, true},
	{{"23503", "k", "Key (event_type)=(a) is not present in table \"b\".", NULL, NULL}, NULL, false},
	{{"23P01", "k", "Key (instance)=(a) conflicts with existing key (instance)=(a).", NULL, NULL}, NULL, true},
	{{"23502", NULL, NULL, "tenant", "\nid\n\ntenant\n"}, NULL, true},
	{{"23502", NULL, NULL, "tenant", "\ntenants\n"}, NULL, false},
	{{"23503", "k", "Key (shop)=(a) is not present.", NULL, "\nshop\n"}, NULL, true},
	{{"23514", NULL, "Partition key of the failing row contains (event_id) = (a).", NULL, NULL}, NULL, true},
	{{"23514", NULL, NULL, NULL, NULL}, FUNCTION, false},
	{{"23514", "amount_check", "Failing row contains (1, a).", NULL, NULL}, NULL, false},
	{{"23502", NULL, "Failing row contains (1, a).", NULL, NULL}, NULL, false},
	{{NULL, NULL, NULL, NULL, NULL}, NULL, false},
};

Test(sqlstate, a_limit_is_the_rows_own_if_an_index_is_named)
{
	cr_expect(sqlstate_is_of_row(&(struct sqlstate_violation){"54000", "events_type_idx", NULL, NULL, NULL}));
	cr_expect_not(sqlstate_is_of_row(&(struct sqlstate_violation){"54000", NULL, NULL, NULL, NULL}));
	cr_expect_not(sqlstate_is_of_row(&(struct sqlstate_violation){"23505", "events_pkey", NULL, NULL, NULL}));
}

Test(sqlstate, a_number_given_twice_and_a_missing_partition_are_the_tables_own)
{
	for (size_t i = 0; i < sizeof(violations) / sizeof(*violations); i++)
		cr_expect_eq(sqlstate_is_of_table(&violations[i].of, violations[i].context), violations[i].is_of_table,
			     "violation %zu", i);
}

Test(sqlstate, what_may_be_the_events_or_the_tables_fault_is_in_doubt)
{
	cr_expect_eq(sqlstate_doubt("23502", NULL), DOUBT_NULL);
	cr_expect_eq(sqlstate_doubt("23514", "COPY events, line 7"), DOUBT_CHECK);
	cr_expect_eq(sqlstate_doubt("22003", NULL), DOUBT_RANGE);
	cr_expect_eq(sqlstate_doubt("23503", NULL), DOUBT_REFERENCE);
	cr_expect_eq(sqlstate_doubt("22003", "unnamed portal parameter $3 = '...'"), DOUBTS);
	cr_expect_eq(sqlstate_doubt("22003", FUNCTION), DOUBTS);
	cr_expect_eq(sqlstate_doubt("23505", NULL), DOUBTS);
	cr_expect_eq(sqlstate_doubt(NULL, NULL), DOUBTS);
}
