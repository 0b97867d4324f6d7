/* XCVM server: TLS for xcs_http and xcs_grpc, by libssl of OpenSSL 3, which is loaded on first use. */
#ifndef XCVM_SERVER_TLS_H
#define XCVM_SERVER_TLS_H

#include <xcvm/xcvm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A certificate and its private key. Servers may share it. */
typedef struct xcs_tls xcs_tls;

/* Reads a certificate, which its chain follows, and a private key without a password. Both are paths of PEM files, and
 * are copied. IO: a file cannot be read. INVALID_ARGUMENT: it has another form, the key belongs to another certificate,
 * or the certificate is not valid now. UNSUPPORTED: the library is missing. */
XCVM_API XCVM_MUST_USE xcvm_status xcs_tls_create(const char *certificate, const char *key, xcs_tls **tls,
                                                  xcvm_error *error);
/* Reads the files again for new connections, with the same errors. A failure keeps the old certificate. Thread-safe,
 * also while servers use it. */
XCVM_API XCVM_MUST_USE xcvm_status xcs_tls_reload(xcs_tls *tls, xcvm_error *error);
/* Releases it. The servers that use it must be destroyed before. NULL is ignored. */
XCVM_API void xcs_tls_destroy(xcs_tls *tls);

#ifdef __cplusplus
}
#endif
#endif
