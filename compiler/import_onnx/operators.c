/* The table of operators that the compiler knows. */
#include "compiler/import_onnx/operators.h"
#include "compiler/import_onnx/import_onnx.h"
#include "compiler/import_onnx/lower/lower.h"

#include <stdlib.h>

/* A plain operator without an instruction of its name does not compile. */
#define ONE_TO_ONE(domain, name, versions) _Static_assert(XCVM_OP_##name != XCVM_OP_NONE, "there is an instruction");
#define LOWERED(domain, name, versions, function, becomes)
#include "compiler/import_onnx/lower/operators.def"

#define ONE_TO_ONE(domain, name, versions) {{domain, #name, versions, #name}, xcc_lower_one_to_one},
#define LOWERED(domain, name, versions, function, becomes) {{domain, #name, versions, becomes}, xcc_lower_##function},
static const xcc_operator_row operators[] = {
#include "compiler/import_onnx/lower/operators.def"
};
enum { COUNT = sizeof operators / sizeof *operators };

static int compare(const void *key, const void *row)
{
    const xcc_operator_row *a = key, *b = row;
    const int domains = strcmp(a->info.domain, b->info.domain);
    return domains != 0 ? domains : strcmp(a->info.name, b->info.name);
}

static const xcc_operator_row *find(const char *domain, const char *name)
{
    const xcc_operator_row key = {.info = {.domain = domain, .name = name}};
    return bsearch(&key, operators, COUNT, sizeof *operators, compare);
}

/* Chainer Compiler's own names begin with "Chainer", and its first models have no domain for them. */
const xcc_operator_row *xcc_operator_find(const char *domain, const char *name)
{
    static const char prefix[] = "Chainer", plus[] = "org.chainer";
    const xcc_operator_row *row = find(domain, name);
    if (row == NULL && strncmp(name, prefix, sizeof prefix - 1) == 0 && (*domain == '\0' || strcmp(domain, plus) == 0))
        row = find(plus, name + sizeof prefix - 1);
    return row;
}

const xcc_operator_info *xcc_operator_info_find(const char *domain, const char *name)
{
    const xcc_operator_row *row = xcc_operator_find(domain, name);
    return row != NULL ? &row->info : NULL;
}

size_t xcc_operator_count(void) { return COUNT; }

const xcc_operator_info *xcc_operator_at(size_t index) { return index < COUNT ? &operators[index].info : NULL; }
