/* curl_loop.h: libcurl's multi interface on a libuv loop. */
#ifndef WSONCE_CURL_LOOP_H
#define WSONCE_CURL_LOOP_H

#include <curl/curl.h>
#include <uv.h>

struct curl_loop;

/* A request has ended; its handle is still in the multi handle. */
typedef void(curl_loop_cb)(CURL *easy, CURLcode result);

/* connections is how many may stay open for the next request. */
struct curl_loop *curl_loop_open(uv_loop_t *loop, size_t connections, curl_loop_cb *cb);

/* To which requests are added, and from which they are removed. */
CURLM *curl_loop_multi(const struct curl_loop *c);

/* No request may be in the multi handle. done is called from the loop when nothing is left. */
void curl_loop_close(struct curl_loop *c, void (*done)(void *arg), void *arg);

#endif
