/* Programs with a kernel library, built in a temporary directory. */
#ifndef XCVM_TESTS_COMPILER_KERNEL_LIBRARY_SUPPORT_H
#define XCVM_TESTS_COMPILER_KERNEL_LIBRARY_SUPPORT_H

#include "compiler/kernel_library/kernel_library.h"
#include "compiler/ir/builder.h"
#include "tests/compiler/support.h"

#include <stdio.h>
#include <unistd.h>

#define APPLY(b, Name, result, ...) must(b, xcc_apply(b, Name, result, __VA_ARGS__))

static char folder[] = "/tmp/xcvm-codegen-XXXXXX";
static char library[64], source[64];

static UNUSED void make_folder(void)
{
    strcpy(folder + sizeof folder - 7, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(library, sizeof library, "%s/p.so", folder);
    snprintf(source, sizeof source, "%s/p.c", folder);
}

static UNUSED void remove_folder(void)
{
    unlink(library);
    unlink(source);
    ck_assert_int_eq(rmdir(folder), 0);
}

static UNUSED void begin_fused(compilation *c)
{
    begin(c, 2);
    c->options.kernel_library.path = library;
}

/* Optimizes, and compiles the library. */
static UNUSED void build_library(compilation *c)
{
    passes(c);
    ok(&c->m, xcc_codegen_build(&c->m));
}

static UNUSED void open_program(compiled_program *k, compilation *c, bool no_libraries)
{
    xcvm_error error = {0};
    xcvm_load_options options = {.size = sizeof options, .library_dir = folder, .no_libraries = no_libraries};
    xcvm_session_options session = {.size = sizeof session, .threads = 2, .strict_types = true};
    k->bytes = emit(c);
    xcvm_status status = xcvm_program_load(k->bytes.at, k->bytes.length, &options, &k->program, &error);
    ck_assert_msg(status == XCVM_OK, "pc %d (%s): %s", error.pc, error.instruction, error.message);
    ck_assert_int_eq(xcvm_session_create(k->program, &session, &k->session, &error), XCVM_OK);
}

static UNUSED const char *notice(const compiled_program *k)
{
    xcvm_program_info info = {.size = sizeof info};
    xcvm_program_get_info(k->program, &info);
    return info.notice;
}

#endif
