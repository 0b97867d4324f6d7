/* XCVM server: TLS for xcs_http and xcs_grpc, by libssl of OpenSSL 3, which is loaded on first use. */
#ifndef XCVM_SERVER_TLS_H
#define XCVM_SERVER_TLS_H

#include <xcvm/xcvm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A certificate and its private key. Servers may share it. */
typedef struct xcs_tls xcs_tls;

/* Reads a certificate with its chain, and a private key without a password, from PEM files; the paths are copied. IO: a
 * file cannot be read. INVALID_ARGUMENT: wrong form, a key of another certificate, or not valid now. UNSUPPORTED: no
 * libssl. */
XCVM_API XCVM_MUST_USE xcvm_status xcs_tls_create(const char *certificate, const char *key, xcs_tls **tls,
                                                  xcvm_error *error);
/* Reads the files again, for new connections. A failure keeps the old certificate. Thread-safe, also while servers use
 * it. */
XCVM_API XCVM_MUST_USE xcvm_status xcs_tls_reload(xcs_tls *tls, xcvm_error *error);
XCVM_API void xcs_tls_destroy(xcs_tls *tls); /* after the servers that use it; NULL is ignored */

#ifdef __cplusplus
}
#endif
#endif
