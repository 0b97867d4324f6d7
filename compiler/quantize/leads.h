/* Leads: the difference between the largest and the second largest element of a row, and its loss by quantization. A
 * decision changes if the loss exceeds the lead. Few rows show few changes, so the share of changes is estimated from
 * all pairs of a lead and a loss: n rows give n * n pairs. */
#ifndef XCVM_COMPILER_QUANTIZE_LEADS_H
#define XCVM_COMPILER_QUANTIZE_LEADS_H

#include <stddef.h>

/* Maximum number of stored rows. When it is reached, every second row is dropped, and from then on every second row is
 * added, and so on. */
enum { XCC_LEADS = 16384 };

typedef struct xcc_leads {
    size_t count, step, skipped;
    float leads[XCC_LEADS], losses[XCC_LEADS];
} xcc_leads;

/* Starts without rows. */
void xcc_leads_clear(xcc_leads *l);
/* Adds the rows of two tensors, `row` elements each, at least 2. Probabilities, which are at least 0 and sum to 1, are
 * compared by their logarithms, like scores. Rows with NaN are ignored. */
void xcc_leads_add(xcc_leads *l, const float *right, const float *x, size_t count, size_t row);
/* The share of rows that keep their greatest element, over all pairs; NaN without rows. Sorts the losses. */
double xcc_leads_agreement(xcc_leads *l);

#endif
