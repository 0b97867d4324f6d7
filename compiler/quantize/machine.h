/* A model that runs: compiled, loaded, with a session. */
#ifndef XCVM_COMPILER_QUANTIZE_MACHINE_H
#define XCVM_COMPILER_QUANTIZE_MACHINE_H

#include "compiler/quantize/model_writer.h"

typedef struct xcc_machine {
    xcvm_bytes bytes; /* of the program */
    xcvm_program *program;
    xcvm_session *session;
} xcc_machine;

/* Compiles a packed model. May be closed after any outcome. */
xcvm_status xcc_machine_open(quantizer *q, const xcvm_bytes *model, xcc_machine *machine);
void xcc_machine_close(xcc_machine *machine);
/* Runs it on inputs that are in the order of q->inputs. */
xcvm_status xcc_machine_run(quantizer *q, xcc_machine *machine, xcvm_value *const *inputs);
/* What the float model has computed of a tensor that is probed, or is an input of the batch that it ran on. */
const xcvm_value *xcc_machine_tensor(const quantizer *q, const xcc_quant_tensor *t, xcvm_value *const *inputs);
/* The number of the output of that name; SIZE_MAX if there is none. */
size_t xcc_machine_output(const xcc_machine *machine, const char *name);

/* A batch of calibration inputs; to be released after any outcome. */
xcvm_status xcc_batch_read(quantizer *q, const xcc_calibration *data, size_t batch, xcvm_value **inputs);
void xcc_batch_release(const quantizer *q, xcvm_value **inputs);

#endif
