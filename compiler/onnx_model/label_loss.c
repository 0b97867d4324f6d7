/* The loss that a model computes of labels itself, found without importing the model. */
#include "compiler/onnx_model/weights.h"
#include "compiler/onnx_model/wire.h"

static xcvm_status read_attribute(xcvm_wire attribute, xcc_label_loss *loss, xcvm_error *error)
{
    bool named;
    XCVM_TRY(xcc_wire_int_attribute(attribute, "ignore_index", &named, &loss->ignored, error));
    loss->ignores |= named;
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
        if (field.number == XCC_NODE_INPUT && inputs++ == 1)
            own.found = xcc_wire_is(&field.inside, label);
        else if (field.number == XCC_NODE_OP_TYPE)
            is_loss = xcc_wire_is(&field.inside, "SoftmaxCrossEntropyLoss") ||
                      xcc_wire_is(&field.inside, "NegativeLogLikelihoodLoss");
        else if (field.number == XCC_NODE_ATTRIBUTE)
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
        while (field.number == XCC_MODEL_GRAPH && field.type == XCVM_WIRE_BYTES) {
            XCVM_TRY(xcc_wire_next(&field.inside, &inner, &more, error));
            if (!more)
                break;
            if (inner.number == XCC_GRAPH_NODE && inner.type == XCVM_WIRE_BYTES)
                XCVM_TRY(read_node(inner.inside, label, loss, error));
        }
    }
}
