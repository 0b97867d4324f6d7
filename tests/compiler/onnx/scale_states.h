/* Kinds of models whose inputs and outputs become states of the session. */
#ifndef XCVM_TESTS_COMPILER_SCALE_STATES_H
#define XCVM_TESTS_COMPILER_SCALE_STATES_H

#include "tests/compiler/onnx/model_writer.h"
#include "tests/compiler/onnx/scale_models.h"

void scale_make_kept(model_writer *m, size_t size);
void scale_make_caches(model_writer *m, size_t size);

#endif
