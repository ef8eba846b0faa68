/* curl_loop.h: libcurl's multi interface on a libuv loop. */
#ifndef WSONCE_CURL_LOOP_H
#define WSONCE_CURL_LOOP_H

#include <curl/curl.h>
#include <uv.h>

struct curl_loop;

/* Called from the loop when a request has ended. Its handle is still in the multi handle. */
typedef void(curl_loop_cb)(CURL *easy, CURLcode result);

/* Runs libcurl on loop. cb is called for each request that ends. At most this many connections stay open for reuse. */
struct curl_loop *curl_loop_open(uv_loop_t *loop, size_t connections, curl_loop_cb *cb);

/* Returns a new request with the options that all of ours have. owner is its CURLINFO_PRIVATE; error has
 * CURL_ERROR_SIZE bytes, and both must outlive it. */
CURL *curl_loop_request(void *owner, char *error);

/* Returns the multi handle. Callers add requests to it and remove them. */
CURLM *curl_loop_multi(const struct curl_loop *c);

/* The multi handle must hold no request. done, unless NULL, is called from the loop when everything is closed. */
void curl_loop_close(struct curl_loop *c, void (*done)(void *arg), void *arg);

#endif
