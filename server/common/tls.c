/* TLS by OpenSSL, an optional dependency that is loaded on first use. */
#include "server/common/tls.h"

#include "base/allocator.h"
#include "base/lazy_library.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

void xcs_tls_block_signal(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

#ifdef XCVM_HAVE_OPENSSL

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#define FUNCTIONS(X)                                                                                                   \
    X(TLS_server_method)                                                                                               \
    X(SSL_CTX_new)                                                                                                     \
    X(SSL_CTX_free)                                                                                                    \
    X(SSL_CTX_ctrl)                                                                                                    \
    X(SSL_CTX_set_options)                                                                                             \
    X(SSL_CTX_set_default_passwd_cb)                                                                                   \
    X(SSL_CTX_use_certificate_chain_file)                                                                              \
    X(SSL_CTX_use_PrivateKey_file)                                                                                     \
    X(SSL_CTX_get0_certificate)                                                                                        \
    X(SSL_CTX_set_alpn_select_cb)                                                                                      \
    X(SSL_new)                                                                                                         \
    X(SSL_free)                                                                                                        \
    X(SSL_set_fd)                                                                                                      \
    X(SSL_set_ex_data)                                                                                                 \
    X(SSL_get_ex_data)                                                                                                 \
    X(SSL_set_accept_state)                                                                                            \
    X(SSL_read)                                                                                                        \
    X(SSL_write)                                                                                                       \
    X(SSL_shutdown)                                                                                                    \
    X(SSL_get_error)                                                                                                   \
    X(SSL_pending)                                                                                                     \
    X(SSL_is_init_finished)                                                                                            \
    X(X509_get0_notBefore)                                                                                             \
    X(X509_get0_notAfter)                                                                                              \
    X(X509_cmp_current_time)                                                                                           \
    X(ASN1_TIME_to_tm)                                                                                                 \
    X(ERR_clear_error)                                                                                                 \
    X(ERR_get_error)                                                                                                   \
    X(ERR_peek_error)                                                                                                  \
    X(ERR_reason_error_string)
XCVM_LAZY_LIBRARY(openssl, XCVM_OPENSSL_FILE, FUNCTIONS)

struct xcs_tls {
    xcvm_allocator allocator;
    pthread_mutex_t mutex; /* of the context */
    SSL_CTX *context;
    char *key;
    size_t path_bytes; /* of both paths, in one block */
    char certificate[];
};

struct xcs_tls_channel {
    xcvm_allocator allocator;
    SSL *ssl;
    const char *protocol;
    bool waits_write;
    bool has_ended; /* the server sends nothing more */
    bool has_failed;
    bool is_plain;
};

/* ---- Certificates ---- */

/* A key with a password must not ask for it at the terminal. */
static int refuse_password(char *buffer, int size, int for_writing, void *user)
{
    (void)buffer;
    (void)size;
    (void)for_writing;
    (void)user;
    return 0;
}

/* Selects the protocol of the connection from the client's list. */
static int select_protocol(SSL *ssl, const unsigned char **selected, unsigned char *length, const unsigned char *list,
                           unsigned bytes, void *user)
{
    const xcs_tls_channel *channel = openssl.SSL_get_ex_data(ssl, 0);
    const size_t wanted = strlen(channel->protocol);
    (void)user;
    for (unsigned at = 0; at < bytes && list[at] < bytes - at; at += 1U + list[at])
        if (list[at] == wanted && memcmp(list + at + 1, channel->protocol, wanted) == 0) {
            *selected = list + at + 1;
            *length = list[at];
            return SSL_TLSEXT_ERR_OK;
        }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* A pipe is refused, because the files are opened more than once, and a reload would wait for its writer. */
static xcvm_status check_readable(const char *path, xcvm_error *error)
{
    struct stat about;
    XCVM_CHECK(error, stat(path, &about) == 0, IO, "%.300s: cannot be read: %s", path, strerror(errno));
    XCVM_CHECK(error, S_ISREG(about.st_mode), INVALID_ARGUMENT,
               "%.300s: is not a regular file; expected a file in PEM form", path);
    FILE *file = fopen(path, "rbe");
    XCVM_CHECK(error, file != NULL, IO, "%.300s: cannot be read: %s", path, strerror(errno));
    (void)fclose(file);
    return XCVM_OK;
}

static xcvm_status fail_with_reason(const char *path, const char *expected, xcvm_error *error)
{
    const unsigned long code = openssl.ERR_get_error();
    const char *reason = code != 0 ? openssl.ERR_reason_error_string(code) : NULL;
    openssl.ERR_clear_error();
    XCVM_FAIL(error, INVALID_ARGUMENT, "%.300s: is not %s (%.100s)", path, expected,
              reason != NULL ? reason : "unknown reason");
}

/* The certificate must be valid now. */
static xcvm_status check_dates(const char *path, SSL_CTX *context, xcvm_error *error)
{
    const X509 *certificate = openssl.SSL_CTX_get0_certificate(context);
    const ASN1_TIME *begin = openssl.X509_get0_notBefore(certificate), *end = openssl.X509_get0_notAfter(certificate);
    const bool is_early = openssl.X509_cmp_current_time(begin) > 0;
    const bool is_late = openssl.X509_cmp_current_time(end) < 0;
    struct tm utc;
    char date[40] = "an unknown date";
    if (openssl.ASN1_TIME_to_tm(is_early ? begin : end, &utc) == 1)
        (void)strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &utc);
    XCVM_CHECK(error, !is_early && !is_late, INVALID_ARGUMENT, "%.300s: the certificate %s %s. Renew it", path,
               is_early ? "is not valid before" : "expired on", date);
    return XCVM_OK;
}

static xcvm_status fill_context(SSL_CTX *context, const char *certificate, const char *key, xcvm_error *error)
{
    const uint64_t options = SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE;
    const long modes = SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS;
    (void)openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
    (void)openssl.SSL_CTX_ctrl(context, SSL_CTRL_MODE, modes, NULL);
    /* Tickets resume sessions; the server remembers none. */
    (void)openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
    (void)openssl.SSL_CTX_set_options(context, options);
    openssl.SSL_CTX_set_default_passwd_cb(context, refuse_password);
    openssl.SSL_CTX_set_alpn_select_cb(context, select_protocol, NULL);
    XCVM_TRY(check_readable(certificate, error));
    XCVM_TRY(check_readable(key, error));
    openssl.ERR_clear_error();
    if (openssl.SSL_CTX_use_certificate_chain_file(context, certificate) != 1)
        return fail_with_reason(certificate, "a certificate in PEM form", error);
    if (openssl.SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1) {
        const unsigned long code = openssl.ERR_peek_error();
        if (ERR_GET_LIB(code) == ERR_LIB_X509 && ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH) {
            openssl.ERR_clear_error();
            XCVM_FAIL(error, INVALID_ARGUMENT, "%.300s: is not the private key of the certificate %.300s", key,
                      certificate);
        }
        return fail_with_reason(key, "a private key in PEM form without a password", error);
    }
    return check_dates(certificate, context, error);
}

static xcvm_status create_context(const char *certificate, const char *key, SSL_CTX **context, xcvm_error *error)
{
    SSL_CTX *created = openssl.SSL_CTX_new(openssl.TLS_server_method());
    XCVM_CHECK(error, created != NULL, OUT_OF_MEMORY, "no memory for TLS");
    xcvm_status status = fill_context(created, certificate, key, error);
    if (status == XCVM_OK)
        *context = created;
    else
        openssl.SSL_CTX_free(created);
    return status;
}

xcvm_status xcs_tls_create(const char *certificate, const char *key, xcs_tls **tls, xcvm_error *error)
{
    XCVM_CHECK(error, certificate != NULL && key != NULL && tls != NULL, INVALID_ARGUMENT,
               "certificate, key or tls is NULL");
    XCVM_TRY(load_openssl(error));
    SSL_CTX *context;
    XCVM_TRY(create_context(certificate, key, &context, error));
    const xcvm_allocator *allocator = xcvm_allocator_or_default(NULL);
    const size_t first = strlen(certificate) + 1, second = strlen(key) + 1;
    xcs_tls *created = xcvm_allocate_zeroed(allocator, sizeof *created + first + second);
    if (created == NULL) {
        openssl.SSL_CTX_free(context);
        XCVM_FAIL(error, OUT_OF_MEMORY, "no memory for TLS");
    }
    created->allocator = *allocator;
    created->context = context;
    created->path_bytes = first + second;
    created->key = created->certificate + first;
    memcpy(created->certificate, certificate, first);
    memcpy(created->key, key, second);
    pthread_mutex_init(&created->mutex, NULL);
    *tls = created;
    return XCVM_OK;
}

xcvm_status xcs_tls_reload(xcs_tls *tls, xcvm_error *error)
{
    SSL_CTX *context, *old;
    XCVM_TRY(create_context(tls->certificate, tls->key, &context, error));
    pthread_mutex_lock(&tls->mutex);
    old = tls->context;
    tls->context = context;
    pthread_mutex_unlock(&tls->mutex);
    openssl.SSL_CTX_free(old);
    return XCVM_OK;
}

void xcs_tls_destroy(xcs_tls *tls)
{
    if (tls == NULL)
        return;
    const xcvm_allocator allocator = tls->allocator;
    openssl.SSL_CTX_free(tls->context);
    pthread_mutex_destroy(&tls->mutex);
    xcvm_deallocate(&allocator, tls, sizeof *tls + tls->path_bytes);
}

/* ---- Connections ---- */

xcs_tls_channel *xcs_tls_open(xcs_tls *tls, int descriptor, const char *protocol)
{
    xcs_tls_channel *channel = xcvm_allocate_zeroed(&tls->allocator, sizeof *channel);
    if (channel == NULL)
        return NULL;
    channel->allocator = tls->allocator;
    channel->protocol = protocol;
    pthread_mutex_lock(&tls->mutex);
    channel->ssl = openssl.SSL_new(tls->context);
    pthread_mutex_unlock(&tls->mutex);
    if (channel->ssl == NULL || openssl.SSL_set_fd(channel->ssl, descriptor) != 1 ||
        openssl.SSL_set_ex_data(channel->ssl, 0, channel) != 1) {
        openssl.SSL_free(channel->ssl);
        xcvm_deallocate(&tls->allocator, channel, sizeof *channel);
        return NULL;
    }
    openssl.SSL_set_accept_state(channel->ssl);
    return channel;
}

void xcs_tls_end(xcs_tls_channel *channel)
{
    /* After an error, or before there are keys, the library must not write. */
    if (channel->has_ended || channel->has_failed || !xcs_tls_is_secure(channel))
        return;
    channel->has_ended = true;
    channel->has_failed = openssl.SSL_shutdown(channel->ssl) < 0;
    openssl.ERR_clear_error();
}

void xcs_tls_close(xcs_tls_channel *channel)
{
    if (channel == NULL)
        return;
    const xcvm_allocator allocator = channel->allocator;
    xcs_tls_end(channel);
    openssl.SSL_free(channel->ssl);
    xcvm_deallocate(&allocator, channel, sizeof *channel);
}

/* Translates a result of the library that is not a number of bytes. */
static ssize_t result_of(xcs_tls_channel *channel, int result)
{
    const int kind = openssl.SSL_get_error(channel->ssl, result);
    channel->waits_write = kind == SSL_ERROR_WANT_WRITE;
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
        errno = EAGAIN;
        return -1;
    }
    if (kind == SSL_ERROR_ZERO_RETURN)
        return 0;
    const unsigned long code = openssl.ERR_peek_error();
    channel->is_plain = ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_HTTP_REQUEST;
    channel->has_failed = true;
    openssl.ERR_clear_error();
    return 0;
}

ssize_t xcs_tls_receive(xcs_tls_channel *channel, void *to, size_t room)
{
    const int pending = openssl.SSL_pending(channel->ssl);
    const size_t most = pending > 0 && (size_t)pending < room ? (size_t)pending : room;
    size_t count = 0;
    channel->waits_write = false;
    while (!channel->has_failed && count < most) {
        const size_t left = most - count;
        openssl.ERR_clear_error();
        const int got = openssl.SSL_read(channel->ssl, (char *)to + count, left < INT32_MAX ? (int)left : INT32_MAX);
        if (got <= 0 && count > 0)
            break; /* the next call returns the end */
        if (got <= 0)
            return result_of(channel, got);
        count += (size_t)got;
    }
    return (ssize_t)count;
}

ssize_t xcs_tls_send(xcs_tls_channel *channel, const void *bytes, size_t count)
{
    if (!channel->has_failed) {
        openssl.ERR_clear_error();
        const int sent = openssl.SSL_write(channel->ssl, bytes, count < INT32_MAX ? (int)count : INT32_MAX);
        channel->waits_write = false;
        if (sent > 0)
            return sent;
        if (result_of(channel, sent) < 0)
            return -1;
    }
    errno = EPIPE;
    return -1;
}

bool xcs_tls_is_pending(const xcs_tls_channel *channel) { return openssl.SSL_pending(channel->ssl) > 0; }
bool xcs_tls_waits_write(const xcs_tls_channel *channel) { return channel->waits_write; }
bool xcs_tls_is_secure(const xcs_tls_channel *channel) { return openssl.SSL_is_init_finished(channel->ssl) != 0; }
bool xcs_tls_is_plain(const xcs_tls_channel *channel) { return channel->is_plain; }

#else

xcvm_status xcs_tls_create(const char *certificate, const char *key, xcs_tls **tls, xcvm_error *error)
{
    (void)certificate;
    (void)key;
    (void)tls;
    XCVM_FAIL(error, UNSUPPORTED, "this build has no TLS (libssl-dev was missing)");
}

/* Without the library nothing is created, so none of these is called. */
xcvm_status xcs_tls_reload(xcs_tls *tls, xcvm_error *error) { return xcs_tls_create(NULL, NULL, &tls, error); }
void xcs_tls_destroy(xcs_tls *tls) { (void)tls; }
xcs_tls_channel *xcs_tls_open(xcs_tls *tls, int descriptor, const char *protocol)
{
    (void)tls;
    (void)descriptor;
    (void)protocol;
    return NULL;
}
void xcs_tls_close(xcs_tls_channel *channel) { (void)channel; }
void xcs_tls_end(xcs_tls_channel *channel) { (void)channel; }
ssize_t xcs_tls_receive(xcs_tls_channel *channel, void *to, size_t room)
{
    (void)channel;
    (void)to;
    (void)room;
    return 0;
}
ssize_t xcs_tls_send(xcs_tls_channel *channel, const void *bytes, size_t count)
{
    (void)channel;
    (void)bytes;
    (void)count;
    return -1;
}
bool xcs_tls_is_pending(const xcs_tls_channel *channel) { return channel == NULL; }
bool xcs_tls_waits_write(const xcs_tls_channel *channel) { return channel == NULL; }
bool xcs_tls_is_secure(const xcs_tls_channel *channel) { return channel != NULL; }
bool xcs_tls_is_plain(const xcs_tls_channel *channel) { return channel == NULL; }

#endif
