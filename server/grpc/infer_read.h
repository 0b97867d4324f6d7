/* Reads a ModelInferRequest as it arrives. Raw tensors are received in the memory of tensors; other fields are read
 * when they are whole. */
#ifndef XCVM_SERVER_GRPC_INFER_READ_H
#define XCVM_SERVER_GRPC_INFER_READ_H

#include "server/oip/infer.h"

/* An input as sent: the tensor of it may follow. */
typedef struct xcs_sent_input {
    size_t index; /* in the program */
    xcvm_dtype dtype;
    int rank;
    int64_t dims[XCVM_MAX_RANK];
} xcs_sent_input;

/* Zero-initialized except for the server, the allocator and the budget, it expects the first byte. */
typedef struct xcs_infer_reader {
    xcs_server *server;
    const xcvm_allocator *allocator; /* for what precedes the model */
    /* Bytes of tensors that are to arrive, of all readers. Beyond the limit, tensors take memory as they arrive, and
     * are copied. */
    size_t *unfilled, unfilled_limit;
    xcs_infer infer; /* infer.model is a reference of the reader */
    bool typed;      /* an input had typed contents */
    bool is_unknown; /* of a failure: there is no such model */
    /* The field that is being read. */
    uint8_t head[20]; /* its key, and its length or number */
    unsigned head_count;
    uint32_t number;
    bool in_content, is_skipped, is_deferred;
    size_t length, left;
    xcs_text content; /* what has arrived of it */
    uint8_t *to;      /* the rest goes to this memory of a tensor; NULL: to `content` */
    /* The message. */
    char name[200], version[24];
    bool has_name, has_model;
    bool defers;       /* fields precede those that they depend on, and are read at the end */
    xcs_text deferred; /* such fields */
    xcs_text id, outputs;
    xcs_sent_input *sent; /* room for the inputs of the program */
    size_t sent_count, raw_count;
} xcs_infer_reader;

/* Fails with INVALID_PROGRAM if the message is not valid. */
xcvm_status xcs_infer_reader_feed(xcs_infer_reader *reader, const uint8_t *bytes, size_t count, xcvm_error *error);
/* Ends the message. reader->infer is then a complete request. */
xcvm_status xcs_infer_reader_end(xcs_infer_reader *reader, xcvm_error *error);
/* Returns the bytes that the reader holds, with its tensors. */
size_t xcs_infer_reader_held(const xcs_infer_reader *reader);
/* Releases what was received of the inputs. After the end of the message, reader->infer has the rest of the request;
 * before it, nothing more may be fed. */
void xcs_infer_reader_drop_inputs(xcs_infer_reader *reader);
void xcs_infer_reader_release(xcs_infer_reader *reader);

#endif
