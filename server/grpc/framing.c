/* The messages of a call. */
#include "server/grpc/framing.h"

#include <string.h>

static bool receive_piece(void *user, const uint8_t *bytes, size_t count)
{
    xcs_framing *framing = user;
    const xcs_framing_options *o = framing->options;
    framing->bytes += count;
    return framing->bytes <= o->limit && o->receive(o->user, bytes, count);
}

static xcvm_status fail_too_long(xcs_framing *framing, size_t limit, xcvm_error *error)
{
    framing->status = XCS_GRPC_RESOURCE_EXHAUSTED;
    XCVM_FAIL(error, OUT_OF_RANGE, "the message is longer than the limit of %zu bytes", limit);
}

static xcvm_status begin_message(xcs_framing *framing, xcvm_error *error)
{
    const xcs_framing_options *o = framing->options;
    framing->left = (size_t)framing->prefix[1] << 24 | (size_t)framing->prefix[2] << 16 |
                    (size_t)framing->prefix[3] << 8 | framing->prefix[4];
    framing->compressed = framing->prefix[0] == 1;
    framing->bytes = 0;
    framing->status = XCS_GRPC_INTERNAL;
    XCVM_CHECK(error, framing->prefix[0] <= 1, INVALID_ARGUMENT, "the flag of compression is %d; expected 0 or 1",
               framing->prefix[0]);
    if (framing->left > o->limit)
        return fail_too_long(framing, o->limit, error);
    if (!framing->compressed)
        return XCVM_OK;
    XCVM_CHECK(error, o->encoding[0] != '\0' && strcmp(o->encoding, "identity") != 0, INVALID_ARGUMENT,
               "a message is compressed, but \"grpc-encoding\" is not sent");
    if (framing->inflater != NULL) {
        xcs_inflater_reset(framing->inflater);
        return XCVM_OK;
    }
    xcvm_status status = xcs_inflater_create(o->allocator, o->encoding, &framing->inflater, error);
    if (status == XCVM_OUT_OF_MEMORY)
        framing->status = XCS_GRPC_RESOURCE_EXHAUSTED;
    return status;
}

static xcvm_status receive(xcs_framing *framing, const uint8_t *bytes, size_t count, xcvm_error *error)
{
    const size_t limit = framing->options->limit;
    xcvm_status status = XCVM_OK;
    if (framing->compressed)
        status = xcs_inflater_feed(framing->inflater, bytes, count, (xcs_inflater_sink){receive_piece, framing}, error);
    else if (count > 0 && !receive_piece(framing, bytes, count))
        status = XCVM_CANCELLED;
    if (framing->bytes > limit)
        return fail_too_long(framing, limit, error);
    if (status == XCVM_OUT_OF_MEMORY)
        framing->status = XCS_GRPC_RESOURCE_EXHAUSTED;
    XCVM_TRY(status);
    framing->left -= count;
    if (framing->left > 0)
        return XCVM_OK;
    XCVM_CHECK(error, !framing->compressed || xcs_inflater_is_complete(framing->inflater), INVALID_ARGUMENT,
               "the compressed data of a message end too early");
    framing->prefix_count = 0;
    framing->message_count++;
    return framing->options->end(framing->options->user) ? XCVM_OK : XCVM_CANCELLED;
}

xcvm_status xcs_framing_feed(xcs_framing *framing, const xcs_framing_options *options, const uint8_t *bytes,
                             size_t count, xcvm_error *error)
{
    framing->options = options;
    while (count > 0) {
        if (framing->prefix_count < XCS_FRAME_PREFIX) {
            framing->prefix[framing->prefix_count++] = *bytes++;
            count--;
            if (framing->prefix_count < XCS_FRAME_PREFIX)
                continue;
            XCVM_TRY(begin_message(framing, error));
        }
        const size_t piece = count < framing->left ? count : framing->left;
        if (piece > 0 || framing->left == 0)
            XCVM_TRY(receive(framing, bytes, piece, error));
        bytes += piece;
        count -= piece;
    }
    return XCVM_OK;
}

bool xcs_framing_is_between(const xcs_framing *framing) { return framing->prefix_count == 0; }

void xcs_framing_release(xcs_framing *framing)
{
    xcs_inflater_destroy(framing->inflater);
    framing->inflater = NULL;
}
