/* Reading the text of onnx_text.h, for models and for the values that they are run on. */
#ifndef XCVM_TESTS_COMPILER_IMPORT_ONNX_ONNX_READER_H
#define XCVM_TESTS_COMPILER_IMPORT_ONNX_ONNX_READER_H

#include "tests/support.h"

enum { ONNX_WORD = 128, ONNX_GRAPHS = 40 };

typedef struct onnx_reader {
    const char *at;
    struct {
        char name[ONNX_WORD];
        test_bytes bytes;
    } graphs[ONNX_GRAPHS];
    size_t graph_count;
} onnx_reader;

/* A tensor written out. */
typedef struct onnx_literal {
    xcvm_dtype dtype;
    int rank;
    int64_t dims[16];
    size_t count;
    double numbers[4096];
    char strings[16][ONNX_WORD];
} onnx_literal;

/* Each fails the test if the next token differs. */
bool onnx_accept(onnx_reader *r, const char *token);
void onnx_need(onnx_reader *r, const char *token);
void onnx_word(onnx_reader *r, char text[ONNX_WORD]);
void onnx_end_line(onnx_reader *r);
void onnx_read_literal(onnx_reader *r, onnx_literal *l);
/* One element. */
void onnx_store(xcvm_dtype dtype, double value, void *at);

#endif
