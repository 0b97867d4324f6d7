/* The operands of Attention as its kernels see them: the same for its 4-D and 3-D forms, with the past in front. */
#ifndef XCVM_OPS_ATTENTION_ATTENTION_OPERANDS_H
#define XCVM_OPS_ATTENTION_ATTENTION_OPERANDS_H

#include "ops/util/kernel.h"

/* Where row `r` of head `h` of batch `b` begins, in elements: at b * batch + h * head + r * row. */
typedef struct xcvm_attention_rows {
    size_t batch, head, row;
} xcvm_attention_rows;

static inline size_t xcvm_attention_row(const xcvm_attention_rows *rows, size_t b, size_t h, size_t r)
{
    return b * rows->batch + h * rows->head + r * rows->row;
}

typedef struct xcvm_attention {
    size_t batch, heads, kv_heads, group; /* group: heads that share keys */
    size_t queries, keys;                 /* keys: past and new ones */
    size_t width, v_width;                /* elements of a query or key, and of a value */
    xcvm_attention_rows q, k, v, y;
    const void *q_data, *k_data, *v_data; /* in the operands' element types */
    const void *mask;                     /* NULL: none */
    xcvm_dtype mask_dtype;
    xcvm_attention_rows mask_rows; /* 0 where it is broadcast */
    size_t mask_keys;              /* keys from here on are masked, if there is a mask */
    const int64_t *nonpad;         /* of each batch entry; NULL: all keys count */
    double scale, softcap;
    bool causal;
    int64_t left, right; /* keys that a query sees before and behind its own place; below 0: all */
    int64_t place;       /* of query 0 among the keys; below 0 taken from nonpad */
    int64_t place_step;  /* from a query to the next: 1, or 0 where the rows are heads (xcvm_attention_reduce) */
    bool nan_rows;       /* queries without keys give NaN, not 0 */
    void *qk;            /* [batch, heads, queries, keys], NULL if not asked for */
    int qk_mode;
} xcvm_attention;

/* Checks that a mask (NULL: none) broadcasts to batch, heads and queries, `around`, and is for at most `keys` keys;
 * sizes below 0 are not known. */
xcvm_status xcvm_attention_check_mask(xcvm_error *error, const xcvm_value *mask, const int64_t around[3], int64_t keys);
/* Where the rows of a mask begin: 0 apart where it is broadcast. */
xcvm_attention_rows xcvm_attention_mask_rows(const xcvm_value *mask);
/* Fills `d` and checks what the shape rule could not know. */
xcvm_status xcvm_attention_read(xcvm_error *error, const xcvm_Attention_args *a, xcvm_attention *d);
/* Bytes of scratch, a multiple of XCVM_ALIGNMENT, in which xcvm_attention_join puts past and new keys and values
 * together, where they are not results. */
size_t xcvm_attention_joined(const xcvm_Attention_args *a);
/* Writes present_key and present_value, and lets `d` take keys and values from there or from `joined`. */
xcvm_status xcvm_attention_join(xcvm_kernel *k, const xcvm_Attention_args *a, void *joined, xcvm_attention *d);
/* With one query for each head, the heads of a group become the queries of one head. */
void xcvm_attention_reduce(xcvm_attention *d);
/* Keys [*begin, *end) are all that query i of batch entry b may see. */
void xcvm_attention_range(const xcvm_attention *d, size_t b, size_t i, size_t *begin, size_t *end);
/* Everything in f64, row by row. */
xcvm_status xcvm_attention_f64(xcvm_kernel *k, const xcvm_Attention_args *a);

#endif
