/* ONNX models for tests, from a line-based text:
 *
 *   ir 8 | opset 13 | opset DOMAIN 1
 *   input x f32[2xN]            also f32 (no shape), f32[], seq(f32), optional(f32),
 *                               map(str, f32)
 *   output y
 *   init w f32[2x2] 1 2 3 4     strings: str[2] "a" "b"
 *   y, z = Op(x, _, w) axis=1 alpha=0.5 pads=[0 1] scales=[1.0 2.0] mode="linear" names=["a"] to=f16
 *                      threshold=-nan value=f32[2]{1 2} body=@name ref=$attribute        domain::Op for another domain
 *   graph name {                a body, ends with a line "}"; may refer to earlier ones
 *   function domain::name(a, b) -> (c) [attribute ...] {
 */
#ifndef XCVM_TESTS_COMPILER_IMPORT_ONNX_ONNX_TEXT_H
#define XCVM_TESTS_COMPILER_IMPORT_ONNX_ONNX_TEXT_H

#include "tests/support.h"
#include "xcvm/compiler.h"

/* The model's bytes, to be freed by the caller. Text that is not understood fails the test. */
test_bytes onnx_from_text(const char *text);

/* Compiles the text and runs it: `given` and `expected` are lines "name f32[2] 1 2"; lists as "name seq(f32[1] 1,
 * f32[2] 2 3)", maps as "name map(str[1] "a", f32[1] 1)". Floats agree to 1e-5. Fails the test otherwise. */
void onnx_expect(const char *text, const char *given, const char *expected);
/* The same for a model's bytes and the compiler's options, which may be NULL; `text` is named when it fails. */
void onnx_expect_model(const test_bytes *model, const xcc_options *compile, const char *text, const char *given,
                       const char *expected);
/* Compiling works, and a run fails with this status and a message that has `part` in it. */
void onnx_fail(const char *text, const char *given, xcvm_status status, const char *part);
/* Compiling fails with this status and a message that has `part` in it. */
void onnx_refuse(const char *text, xcvm_status status, const char *part);

#endif
