/* The loss that a model computes of labels itself, found without importing the model. */
#include "compiler/onnx_model/weights.h"
#include "compiler/onnx_model/wire.h"

/* Numbers of fields in onnx.proto. */
enum { MODEL_GRAPH = 7, GRAPH_NODE = 1, NODE_INPUT = 1, NODE_OP_TYPE = 4, NODE_ATTRIBUTE = 5 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_I = 3 };

static bool is_text(const xcvm_wire *wire, const char *text)
{
    const size_t length = (size_t)(wire->end - wire->at);
    return wire->at != NULL && length == strlen(text) && memcmp(wire->at, text, length) == 0;
}

static xcvm_status read_attribute(xcvm_wire attribute, xcc_label_loss *loss, xcvm_error *error)
{
    bool named = false;
    int64_t number = 0;
    for (;;) {
        xcvm_wire_field field;
        bool more;
        XCVM_TRY(xcc_wire_next(&attribute, &field, &more, error));
        if (!more)
            break;
        if (field.number == ATTRIBUTE_NAME && field.type == XCVM_WIRE_BYTES)
            named = is_text(&field.inside, "ignore_index");
        else if (field.number == ATTRIBUTE_I && field.type == XCVM_WIRE_VARINT)
            number = (int64_t)field.value;
    }
    if (named) {
        loss->ignores = true;
        loss->ignored = number;
    }
    return XCVM_OK;
}

static xcvm_status read_node(xcvm_wire node, const char *label, xcc_label_loss *loss, xcvm_error *error)
{
    xcc_label_loss own = {.found = false};
    bool is_loss = false;
    int inputs = 0;
    for (;;) {
        xcvm_wire_field field;
        bool more;
        XCVM_TRY(xcc_wire_next(&node, &field, &more, error));
        if (!more)
            break;
        if (field.type != XCVM_WIRE_BYTES)
            continue;
        if (field.number == NODE_INPUT && inputs++ == 1)
            own.found = is_text(&field.inside, label);
        else if (field.number == NODE_OP_TYPE)
            is_loss = is_text(&field.inside, "SoftmaxCrossEntropyLoss") ||
                      is_text(&field.inside, "NegativeLogLikelihoodLoss");
        else if (field.number == NODE_ATTRIBUTE)
            XCVM_TRY(read_attribute(field.inside, &own, error));
    }
    if (own.found && is_loss)
        *loss = own;
    return XCVM_OK;
}

xcvm_status xcc_label_loss_find(const void *model, size_t count, const char *label, xcc_label_loss *loss,
                                xcvm_error *error)
{
    xcvm_wire wire = xcvm_wire_of(model, count);
    *loss = (xcc_label_loss){.found = false};
    for (;;) {
        xcvm_wire_field field, inner;
        bool more;
        XCVM_TRY(xcc_wire_next(&wire, &field, &more, error));
        if (!more)
            return XCVM_OK;
        while (field.number == MODEL_GRAPH && field.type == XCVM_WIRE_BYTES) {
            XCVM_TRY(xcc_wire_next(&field.inside, &inner, &more, error));
            if (!more)
                break;
            if (inner.number == GRAPH_NODE && inner.type == XCVM_WIRE_BYTES)
                XCVM_TRY(read_node(inner.inside, label, loss, error));
        }
    }
}
