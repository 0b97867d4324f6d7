/* Leads of greatest elements, against decisions that are counted over all pairs of a lead and a loss. */
#include "compiler/quantize/leads.h"
#include "tests/support.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

static xcc_leads *new_leads(void)
{
    xcc_leads *l = malloc(sizeof *l);
    ck_assert_ptr_nonnull(l);
    xcc_leads_clear(l);
    return l;
}

/* Leads 1, 4 and 2; losses 3, 0 and -1. The loss of 3 exceeds two of the leads. */
START_TEST(pairs)
{
    static const float right[] = {5, 4, 0, 1, 5, 0, 0, 1, 3}, x[] = {4, 6, 0, 1, 5, 0, 0, 1, 4};
    xcc_leads *l = new_leads();
    ck_assert(isnan(xcc_leads_agreement(l)));
    xcc_leads_add(l, right, x, 9, 3);
    ck_assert_uint_eq(l->count, 3);
    ck_assert_double_eq_tol(xcc_leads_agreement(l), 7.0 / 9, 1e-12);
    free(l);
}
END_TEST

/* No row of ten changes, but the uncertain one would with the losses of the others. */
START_TEST(rare_changes)
{
    xcc_leads *l = new_leads();
    for (int i = 0; i < 10; i++) {
        const float lead = i == 0 ? 0.1f : 10, loss = i == 0 ? 0 : 1;
        xcc_leads_add(l, (const float[]){lead, 0}, (const float[]){lead - loss, 0}, 2, 2);
    }
    ck_assert_double_eq_tol(xcc_leads_agreement(l), 1 - 9.0 / 100, 1e-12);
    free(l);
}
END_TEST

/* Probabilities lead by the difference of their logarithms; other numbers by their own. */
START_TEST(probabilities)
{
    static const float right[] = {0.75f, 0.25f, 0}, x[] = {0.5f, 0.5f, 0}, scores[] = {3, 1, 0}, changed[] = {2, 1, 0};
    xcc_leads *l = new_leads();
    xcc_leads_add(l, right, x, 3, 3);
    ck_assert_double_eq_tol((double)l->leads[0], log(3), 1e-6);
    ck_assert_double_eq_tol((double)l->losses[0], log(3), 1e-6);
    xcc_leads_clear(l);
    xcc_leads_add(l, scores, changed, 3, 3);
    ck_assert_double_eq((double)l->leads[0], 2);
    ck_assert_double_eq((double)l->losses[0], 1);
    free(l);
}
END_TEST

START_TEST(not_a_number)
{
    static const float right[] = {1, NAN, 2, 1, 3, 1}, x[] = {1, 2, 2, NAN, 3, 1};
    xcc_leads *l = new_leads();
    xcc_leads_add(l, right, x, 6, 2);
    ck_assert_uint_eq(l->count, 1);
    free(l);
}
END_TEST

/* Rows beyond the capacity are sampled evenly: half of all have a lead of 1, whatever their number. */
START_TEST(many_rows)
{
    xcc_leads *l = new_leads();
    for (int i = 0; i < 5 * XCC_LEADS; i++) {
        const float lead = i < 5 * XCC_LEADS / 2 ? 1 : 3;
        xcc_leads_add(l, (const float[]){lead, 0}, (const float[]){lead - 2, 0}, 2, 2);
    }
    ck_assert_uint_le(l->count, XCC_LEADS);
    ck_assert_uint_ge(l->count, XCC_LEADS / 2);
    ck_assert_double_eq_tol(xcc_leads_agreement(l), 0.5, 0.01);
    free(l);
}
END_TEST

Suite *suite_compiler_leads(void);
Suite *suite_compiler_leads(void)
{
    Suite *suite = suite_create("compiler_leads");
    TCase *tc = tcase_create("leads");
    tcase_add_test(tc, pairs);
    tcase_add_test(tc, rare_changes);
    tcase_add_test(tc, probabilities);
    tcase_add_test(tc, not_a_number);
    tcase_add_test(tc, many_rows);
    suite_add_tcase(suite, tc);
    return suite;
}
