/* A compiled and loaded model with a session. */
#ifndef XCVM_COMPILER_QUANTIZE_COMPILED_MODEL_H
#define XCVM_COMPILER_QUANTIZE_COMPILED_MODEL_H

#include "compiler/quantize/model_writer.h"

typedef struct xcc_compiled_model {
    xcvm_bytes bytes; /* program bytes */
    xcvm_program *program;
    xcvm_session *session;
} xcc_compiled_model;

/* Compiles a packed model. Close it even after a failure. */
xcvm_status xcc_compiled_open(quantizer *q, const xcvm_bytes *model, xcc_compiled_model *compiled);
void xcc_compiled_close(xcc_compiled_model *compiled);
/* Runs it on inputs in the order of q->inputs. */
xcvm_status xcc_compiled_run(quantizer *q, xcc_compiled_model *compiled, xcvm_value *const *inputs);
/* Returns a probed tensor of the float model's last run, or an input of that run. */
const xcvm_value *xcc_compiled_tensor(const quantizer *q, const xcc_quant_tensor *t, xcvm_value *const *inputs);
/* Returns the index of an output, or SIZE_MAX. */
size_t xcc_compiled_output(const xcc_compiled_model *compiled, const char *name);

/* Reads a batch of inputs. Release it even after a failure. */
xcvm_status xcc_batch_read(quantizer *q, const xcc_calibration *data, size_t batch, xcvm_value **inputs);
void xcc_batch_release(const quantizer *q, xcvm_value **inputs);

#endif
