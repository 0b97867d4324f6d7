/* Splits a case file into cases, and each case into a program and its expectations. */
#ifndef XCVM_TESTS_CASE_TEXT_H
#define XCVM_TESTS_CASE_TEXT_H

#include "proto/literal_files.h"
#include "proto/literals.h"
#include "tests/support.h"

/* An expected result. */
typedef struct case_value {
    xcvm_kind kind;
    xcvm_value tensor;
    struct case_value *items; /* of a sequence or optional */
    size_t count;
} case_value;

typedef enum case_check {
    CASE_VALUE,  /* equal within the tolerance */
    CASE_TYPE,   /* of that type */
    CASE_BETWEEN /* a tensor whose elements are in [low, high] */
} case_check;

typedef struct case_expectation {
    int line;
    const char *output; /* name */
    int32_t reg;        /* the register that the output is made for; 0: the case has an output of that name itself */
    bool state;         /* the state of that name after the run */
    case_check check;
    double rtol, atol; /* below 0: by element type */
    double low, high;
    case_value value;
    xcvm_type type;
} case_expectation;

typedef struct case_binding {
    const char *input;
    xcvm_value tensor;
} case_binding;

enum { CASE_LIMIT = 64, CASE_GRADIENTS = 16 };

/* The gradient of a loss of these registers by the program's f64 literals (tests/case_gradient.h). */
typedef struct case_gradient {
    int32_t registers[CASE_GRADIENTS];
    size_t register_count;             /* 0: the case has none */
    double rtol, atol, step;           /* of finite differences */
    bool straight;                     /* straight-through */
    bool once;                         /* not of the second order */
    bool only_f64;                     /* other types are left out */
    bool only_sized;                   /* omit sizes that only the run knows */
    xcvm_value values[CASE_GRADIENTS]; /* in place of finite differences, those of the literals in their order */
    size_t value_count;
} case_gradient;

typedef struct test_case {
    const char *name;
    int line;
    const char *program; /* its text; lines have the numbers that they have in the file */
    size_t program_length;
    case_expectation expectations[CASE_LIMIT];
    size_t expectation_count;
    case_binding bindings[CASE_LIMIT];
    size_t binding_count;
    case_gradient gradient;
    const char *printed;     /* what Print must have printed; NULL: anything */
    const char *refuse;      /* name of a status; NULL: it must run */
    const char *refuse_part; /* of the message */
} test_case;

/* A case file while its cases are read. Literals refer to files of its directory. */
typedef struct case_file {
    test_bytes text;
    xcvm_arena arena;
    xcvm_literal_files files;
    xcvm_reader reader;
    xcvm_error error;
    char folder[1000];
} case_file;

/* Returns false if the file cannot be read. To be closed in either case. */
bool case_file_open(case_file *f, const char *path);
/* Reads the next case; *more is false at the end of the file. The case lives until the file is closed. */
xcvm_status case_file_next(case_file *f, test_case *c, bool *more);
/* Assembles the case's program. */
xcvm_status case_assemble(const case_file *f, const test_case *c, test_bytes *program, xcvm_error *error);
void case_file_close(case_file *f);

#endif
