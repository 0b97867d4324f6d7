/* Inference requests and responses of the Open Inference Protocol: JSON with the binary tensor extension. */
#ifndef XCVM_SERVER_OIP_INFER_H
#define XCVM_SERVER_OIP_INFER_H

#include "server/json/document.h"
#include "server/json/text.h"
#include "xcvm/server.h"

typedef struct xcs_infer_output {
    size_t index; /* in the program */
    bool binary;
} xcs_infer_output;

/* Documents of earlier requests, of one thread: clients repeat them, apart from their data. Zero-initialized, it is
 * empty.
 */
enum { XCS_INFER_MEMO_SLOTS = 8, XCS_INFER_MEMO_BYTES = 2048 };
typedef struct xcs_infer_memo {
    struct {
        xcs_text text; /* without data */
        xcs_json *document;
    } slots[XCS_INFER_MEMO_SLOTS];
} xcs_infer_memo;

void xcs_infer_memo_free(xcs_infer_memo *memo);

/* A request as read. Zero-initialized except for `model`, it is empty. */
typedef struct xcs_infer {
    xcs_model *model;     /* the caller's reference, which must outlive this */
    xcs_infer_memo *memo; /* NULL: none */
    char *id;             /* NULL: none */
    xcvm_value **inputs;
    xcs_infer_output *outputs; /* the requested ones */
    size_t input_count, output_count;
    bool binary_outputs; /* unless an output says otherwise */
    int priority;
    uint64_t timeout_ns;
    char client[64]; /* "sequence_id"; "": none */
    bool client_begins, client_ends;
} xcs_infer;

/* Reads a body of `length` bytes, of which the first `json_length` are JSON and the rest is binary data. */
xcvm_status xcs_infer_read(xcs_infer *infer, const char *body, size_t length, size_t json_length, xcvm_error *error);
/* Appends the response. *json_length is the length of its JSON part; binary data follows if it is less than all. */
xcvm_status xcs_infer_write(const xcs_infer *infer, const xcvm_value *const *outputs, xcs_text *text,
                            size_t *json_length, xcvm_error *error);
/* Releases the inputs alone. After they are submitted, the pool has references of its own, and the inputs end with the
 * run, not when the client has read the response. */
void xcs_infer_release_inputs(xcs_infer *infer);
void xcs_infer_release(xcs_infer *infer);

#endif
