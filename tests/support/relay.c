/* A TLS relay: one thread accepts, and one thread per connection relays. Its threads never fail the test. */
#include "relay.h"
#include "support.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>

#define CONNECT_MS 5000
#define PUMPS_MAX  64

struct pump {
	pthread_t thread;
	struct relay *relay;
	int in_fd;  /* accepted */
	int out_fd; /* dialled */
	SSL *tls;   /* on one of the two */
};

struct relay {
	pthread_t thread;
	SSL_CTX *tls;
	bool is_server; /* TLS is on the accepted side */
	int listen_fd;
	int port;
	int to_port;
	int pump_count; /* used only by the accepting thread, until it has ended */
	struct pump pumps[PUMPS_MAX];
};

static void set_blocking(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

static bool send_all(int fd, const char *bytes, ssize_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, bytes, (size_t)len, MSG_NOSIGNAL);

		if (n < 1)
			return false;
		bytes += n;
		len -= n;
	}
	return true;
}

/* Relays the data available on either side. False if one side has ended. */
static bool pass_on(struct pump *p, int tls_fd, int plain_fd)
{
	struct pollfd polls[] = {{.fd = tls_fd, .events = POLLIN}, {.fd = plain_fd, .events = POLLIN}};
	char bytes[16384];

	poll(polls, 2, SSL_pending(p->tls) ? 0 : -1);
	if (polls[1].revents) {
		ssize_t n = recv(plain_fd, bytes, sizeof bytes, 0);

		if (n < 1 || SSL_write(p->tls, bytes, (int)n) < 1)
			return false;
	}
	if (polls[0].revents || SSL_pending(p->tls)) {
		int n = SSL_read(p->tls, bytes, sizeof bytes);

		if (n < 1)
			return SSL_get_error(p->tls, n) == SSL_ERROR_WANT_READ;
		return send_all(plain_fd, bytes, n);
	}
	return true;
}

/* relay_free closes the sockets, so that it can shut them down without a race for their numbers. */
static void *run_pump(void *arg)
{
	struct pump *p = arg;
	bool is_server = p->relay->is_server;
	int tls_fd = is_server ? p->in_fd : p->out_fd;
	int plain_fd = is_server ? p->out_fd : p->in_fd;

	SSL_set_fd(p->tls, tls_fd);
	if ((is_server ? SSL_accept(p->tls) : SSL_connect(p->tls)) == 1) {
		while (pass_on(p, tls_fd, plain_fd))
			;
		SSL_shutdown(p->tls);
	}
	shutdown(p->in_fd, SHUT_RDWR);
	shutdown(p->out_fd, SHUT_RDWR);
	return NULL;
}

static void start_pump(struct relay *r, int fd)
{
	struct pump *p = &r->pumps[r->pump_count];
	int out_fd = r->pump_count < PUMPS_MAX ? port_connect(r->to_port, CONNECT_MS) : -1;

	if (out_fd == -1) {
		close(fd);
		return;
	}
	set_blocking(fd);
	set_blocking(out_fd);
	*p = (struct pump){.relay = r, .in_fd = fd, .out_fd = out_fd, .tls = SSL_new(r->tls)};
	if (!r->is_server)
		SSL_set1_host(p->tls, "localhost");
	if (!p->tls || pthread_create(&p->thread, NULL, run_pump, p) != 0)
		abort();
	r->pump_count++;
}

static void *run(void *arg)
{
	struct relay *r = arg;

	for (;;) {
		int fd = accept4(r->listen_fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd == -1)
			return NULL; /* shut down by relay_free */
		start_pump(r, fd);
	}
}

static struct relay *start(int to_port, SSL_CTX *tls, bool is_server)
{
	struct relay *r = calloc(1, sizeof *r);
	sigset_t all, before;

	/* After a record without data (a session ticket), SSL_read must not wait for the next one. */
	SSL_CTX_clear_mode(tls, SSL_MODE_AUTO_RETRY);
	r->tls = tls;
	r->is_server = is_server;
	r->to_port = to_port;
	r->port = port_reserve();
	r->listen_fd = port_listen(r->port);
	set_blocking(r->listen_fd);
	sigfillset(&all); /* signals are for the test's own thread */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&r->thread, NULL, run, r) != 0)
		cr_assert_fail("cannot start the relay's thread");
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

struct relay *relay_new_in_front(int to_port, const struct certificate *server)
{
	SSL_CTX *tls = SSL_CTX_new(TLS_server_method());

	if (!tls || SSL_CTX_use_certificate_chain_file(tls, server->cert) != 1 ||
	    SSL_CTX_use_PrivateKey_file(tls, server->key, SSL_FILETYPE_PEM) != 1)
		cr_assert_fail("the relay cannot use %s", server->cert);
	return start(to_port, tls, true);
}

struct relay *relay_new_asking(int to_port, const struct certificate *server, const struct certificate *authority)
{
	struct relay *r = relay_new_in_front(to_port, server);

	if (SSL_CTX_load_verify_locations(r->tls, authority->cert, NULL) != 1)
		cr_assert_fail("the relay cannot use %s", authority->cert);
	SSL_CTX_set_verify(r->tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return r;
}

struct relay *relay_new_towards(int to_port, const struct certificate *authority)
{
	return relay_new_as(to_port, authority, NULL);
}

struct relay *relay_new_as(int to_port, const struct certificate *authority, const struct certificate *client)
{
	SSL_CTX *tls = SSL_CTX_new(TLS_client_method());

	if (!tls || SSL_CTX_load_verify_locations(tls, authority->cert, NULL) != 1)
		cr_assert_fail("the relay cannot use %s", authority->cert);
	if (client && (SSL_CTX_use_certificate_chain_file(tls, client->cert) != 1 ||
		       SSL_CTX_use_PrivateKey_file(tls, client->key, SSL_FILETYPE_PEM) != 1))
		cr_assert_fail("the relay cannot use %s", client->cert);
	SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
	return start(to_port, tls, false);
}

int relay_port(const struct relay *r)
{
	return r->port;
}

void relay_free(struct relay *r)
{
	if (!r)
		return;
	shutdown(r->listen_fd, SHUT_RDWR);
	pthread_join(r->thread, NULL);
	for (int i = 0; i < r->pump_count; i++) {
		struct pump *p = &r->pumps[i];

		shutdown(p->in_fd, SHUT_RDWR);
		shutdown(p->out_fd, SHUT_RDWR);
		pthread_join(p->thread, NULL);
		SSL_free(p->tls);
		close(p->in_fd);
		close(p->out_fd);
	}
	close(r->listen_fd);
	SSL_CTX_free(r->tls);
	free(r);
}
