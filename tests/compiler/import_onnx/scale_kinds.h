/* Writers of the models of scale_models.h: a function scale_make_KIND per line of SCALE_KINDS, in the file for its kind
 * of growth. An omission is a link error. */
#ifndef XCVM_TESTS_COMPILER_IMPORT_ONNX_SCALE_KINDS_H
#define XCVM_TESTS_COMPILER_IMPORT_ONNX_SCALE_KINDS_H

#include "tests/compiler/import_onnx/model_writer.h"
#include "tests/compiler/import_onnx/scale_models.h"

#define SCALE_KIND(name, what) void scale_make_##name(model_writer *m, size_t size);
SCALE_KINDS(SCALE_KIND)
#undef SCALE_KIND

#endif
