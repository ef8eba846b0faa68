/* A receiver.py process, and requests to it. */
#include "receiver.h"
#include "support.h"

#define START_MS  15000
#define ANSWER_MS 10000

struct receiver {
	struct process *process;
	int port;
};

static bool is_listening(const struct receiver *r)
{
	int fd = port_connect(r->port, 1000);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

struct receiver *receiver_start_for(const struct certificate *certificate, const struct certificate *authority)
{
	struct receiver *r = calloc(1, sizeof *r);
	char port[12];

	r->port = port_reserve();
	snprintf(port, sizeof port, "%d", r->port);
	r->process = process_start_argv((const char *const[]){"python3", "tests/support/receiver.py", port,
							      RECEIVER_SECRET, certificate ? certificate->cert : NULL,
							      certificate ? certificate->key : NULL,
							      authority ? authority->cert : NULL, NULL},
					NULL);
	await(is_listening(r), START_MS, "the receiver does not start: %s", process_last_words(r->process));
	return r;
}

struct receiver *receiver_start(const struct certificate *certificate)
{
	return receiver_start_for(certificate, NULL);
}

int receiver_port(const struct receiver *r)
{
	return r->port;
}

json_t *receiver_requests(struct receiver *r, const char *path)
{
	char *target = suite_text("/requests?path=%s", path);
	char *body = http_get(r->port, target, ANSWER_MS, NULL);
	free(target);
	json_t *all = json_loads(body ? body : "", 0, NULL);
	cr_assert(json_is_array(all), "the receiver does not tell its requests: %s", process_last_words(r->process));
	free(body);
	return all;
}

long receiver_count(struct receiver *r, const char *path)
{
	json_t *all = receiver_requests(r, path);
	long n = (long)json_array_size(all);

	json_decref(all);
	return n;
}

/* Requires that one's partner is other; records it if one has no partner yet. */
static void pair(json_t *partners, const char *one, const char *other)
{
	const char *known = json_string_value(json_object_get(partners, one));

	if (known)
		cr_assert_str_eq(known, other);
	else
		json_object_set_new(partners, one, json_string(other));
}

long receiver_effects(struct receiver *r, const char *path)
{
	json_t *all = receiver_requests(r, path), *keys = json_object(), *events = json_object(), *request;
	size_t i;

	json_array_foreach(all, i, request)
	{
		json_t *body = json_loads(json_string_value(json_object_get(request, "body")), 0, NULL);
		const char *key = json_string_value(json_object_get(request, "key"));
		const char *id = json_string_value(json_object_get(body, "id"));

		cr_assert(json_is_true(json_object_get(request, "is_signed")), "a request is not signed");
		cr_assert(key && *key && id, "a request has no key, or no event");
		pair(keys, key, id);
		pair(events, id, key);
		json_decref(body);
	}
	long n = (long)json_object_size(keys);
	json_decref(all);
	json_decref(keys);
	json_decref(events);
	return n;
}

void receiver_release(struct receiver *r)
{
	process_signal(r->process, SIGUSR1);
}

int receiver_extras(struct receiver *r)
{
	char *lines = process_output(r->process);
	int n = 0;

	for (const char *at = lines; (at = strchr(at, '\n')); at++)
		n++;
	free(lines);
	return n;
}
