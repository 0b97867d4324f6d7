/* Name tables, and the names and owners of symbolic dimensions. */
#include "compiler/ir/graph.h"

#include <string.h>

/* ---- Tables ---- */

/* Returns the entry of a name, or the free one for it; the table has room. */
struct xcc_table_entry *xcc_table_find(const xcc_table *t, const char *name)
{
    size_t i = (size_t)xcvm_hash(t->key, name, strlen(name)) & (t->capacity - 1);
    while (t->at[i].name != NULL && strcmp(t->at[i].name, name) != 0)
        i = (i + 1) & (t->capacity - 1);
    return &t->at[i];
}

/* Ensures room for one more entry. */
bool xcc_table_reserve(xcc_module *m, xcc_table *t)
{
    if (t->count + 1 <= t->capacity / 2)
        return true;
    xcc_table larger = {.count = t->count, .capacity = t->capacity > 0 ? t->capacity * 2 : 16, .key = &m->key};
    larger.at = xcc_alloc(m, larger.capacity * sizeof *larger.at);
    if (larger.at == NULL)
        return false;
    for (size_t i = 0; i < t->capacity; i++)
        if (t->at[i].name != NULL)
            *xcc_table_find(&larger, t->at[i].name) = t->at[i];
    *t = larger;
    return true;
}

const struct xcc_table_entry *xcc_table_lookup(const xcc_table *table, const char *name)
{
    if (table->capacity == 0)
        return NULL;
    const struct xcc_table_entry *entry = xcc_table_find(table, name);
    return entry->name != NULL ? entry : NULL;
}

xcvm_status xcc_table_put(xcc_module *m, xcc_table *table, const char *name, int64_t value)
{
    if (!xcc_table_reserve(m, table))
        return XCVM_OUT_OF_MEMORY;
    struct xcc_table_entry *entry = xcc_table_find(table, name);
    table->count += entry->name == NULL;
    *entry = (struct xcc_table_entry){name, value};
    return XCVM_OK;
}

void xcc_table_remove(xcc_table *t, const char *name)
{
    if (t->capacity == 0)
        return;
    const size_t mask = t->capacity - 1;
    size_t hole = (size_t)(xcc_table_find(t, name) - t->at);
    if (t->at[hole].name == NULL)
        return;
    /* Later entries that a gap would make unreachable move into it. */
    for (size_t i = (hole + 1) & mask; t->at[i].name != NULL; i = (i + 1) & mask) {
        const size_t first_slot = (size_t)xcvm_hash(t->key, t->at[i].name, strlen(t->at[i].name)) & mask;
        if (((i - first_slot) & mask) >= ((i - hole) & mask)) {
            t->at[hole] = t->at[i];
            hole = i;
        }
    }
    t->at[hole] = (struct xcc_table_entry){NULL, 0};
    t->count--;
}

/* ---- Symbols ---- */

static int64_t new_symbol(xcc_module *m, const char *name, const xcc_value *owner)
{
    xcc_symbol_entry *symbols = xcc_grow(m, m->symbols, m->symbol_count, &m->symbol_capacity, sizeof *symbols);
    if (symbols == NULL)
        return XCVM_ANY_DIM;
    m->symbols = symbols;
    m->symbols[m->symbol_count] = (xcc_symbol_entry){name, owner};
    return -2 - (int64_t)m->symbol_count++;
}

int64_t xcc_symbol(xcc_module *m, const char *name)
{
    if (name == NULL || name[0] == '\0')
        return new_symbol(m, NULL, NULL);
    if (!xcc_table_reserve(m, &m->dim_names))
        return XCVM_ANY_DIM;
    struct xcc_table_entry *entry = xcc_table_find(&m->dim_names, name);
    if (entry->name != NULL)
        return entry->value;
    const char *copy = xcc_string(m, name, strlen(name));
    if (copy == NULL)
        return XCVM_ANY_DIM;
    int64_t dim = XCVM_ANY_DIM;
    for (size_t i = 0; i < m->options->dim_count; i++)
        if (strcmp(m->options->dims[i].name, name) == 0)
            dim = m->options->dims[i].value;
    if (dim < 0)
        dim = new_symbol(m, copy, NULL);
    if (dim == XCVM_ANY_DIM)
        return dim;
    *entry = (struct xcc_table_entry){copy, dim};
    m->dim_names.count++;
    return dim;
}

bool xcc_symbol_known(const xcc_module *m, const char *name)
{
    return m->dim_names.capacity > 0 && xcc_table_find(&m->dim_names, name)->name != NULL;
}

int64_t xcc_symbol_of(xcc_module *m, const xcc_value *owner) { return new_symbol(m, NULL, owner); }

bool xcc_symbol_is_of(const xcc_module *m, int64_t dim, const xcc_value *owner)
{
    return dim < XCVM_ANY_DIM && (uint64_t)(-2 - dim) < m->symbol_count && m->symbols[-2 - dim].owner == owner;
}

const char *xcc_symbol_name(const xcc_module *m, int64_t dim)
{
    if (dim >= XCVM_ANY_DIM || (uint64_t)(-2 - dim) >= m->symbol_count)
        return NULL;
    return m->symbols[-2 - dim].name;
}
