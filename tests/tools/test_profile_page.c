/* Tests of the page of profiles: names stay text, data come back, recordings know what made their inputs. */
#include "tests/suites.h"
#include "tools/profile/profile_page.h"

#include <stdlib.h>
#include <string.h>

#define HOSTILE "</script><img src=x onerror=alert(1)>\"&\x01"

static struct profile_row rows[] = {
    {.instruction = "Conv",
     .node = HOSTILE,
     .shape = "f32[1x2]",
     .pc = 0,
     .calls = 2,
     .ns = 3000,
     .flops = 6000,
     .bytes = 12},
    {.instruction = "Add", .node = "grad@add", .shape = "f32[2]", .pc = 1},
    {.instruction = "Conv", .node = "adam", .shape = "", .pc = 2, .calls = 4, .ns = 1000},
};
static const struct profile profile = {.rows = rows, .count = 3, .run_ns = 5000, .runs = 2};
static const struct peaks peaks = {.gflops = 100, .gigabytes = 10, .processor = HOSTILE};

static bool refuse(void *user, const void *bytes, size_t count)
{
    (void)user, (void)bytes, (void)count;
    return false;
}

static struct buffer write_page(const char *earlier, const char *optimizer)
{
    const struct recording recording = {0};
    const struct profile_page page = {.profile = &profile,
                                      .recording = &recording,
                                      .peaks = &peaks,
                                      .program = "folder/" HOSTILE,
                                      .optimizer = optimizer,
                                      .threads = 2,
                                      .earlier = earlier};
    struct buffer html = {0};
    ck_assert(profile_page_write(&page, (xcvm_sink){buffer_sink, &html}));
    ck_assert(!profile_page_write(&page, (xcvm_sink){refuse, NULL}));
    return html;
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        count++;
    return count;
}

START_TEST(names_are_text)
{
    struct buffer html = write_page(NULL, NULL);
    ck_assert_ptr_null(strstr(html.data, "<img"));
    /* Data and script end where they should: there is no third one. */
    ck_assert_uint_eq(count_of(html.data, "</script>"), 2);
    ck_assert_ptr_nonnull(
        strstr(html.data, "<td class=\"text\">&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&quot;&amp;"));
    /* The row without calls is left out, and its kind. */
    ck_assert_ptr_null(strstr(html.data, "grad@add"));
    ck_assert_uint_eq(count_of(html.data, "<tr data-pc="), 2);
    ck_assert_ptr_null(strstr(html.data, "Phases of the training step"));
    /* Two runs of 5 us take 2.5 us each, of which 4 us of both are in instructions. */
    ck_assert_ptr_nonnull(strstr(html.data, "<dt>time of a run</dt><dd>0.0025<small> ms"));
    ck_assert_ptr_nonnull(strstr(html.data, "<dt>in instructions</dt><dd>80.0<small> %"));
    buffer_release(&html);
}
END_TEST

START_TEST(phases)
{
    struct buffer html = write_page(NULL, "adam:lr=0.1");
    const char *const at = strstr(html.data, "<tr><td class=\"text\">optimizer</td>");
    ck_assert_ptr_nonnull(at);
    ck_assert_int_eq(strncmp(strstr(at, "data-v"), "data-v=\"0.5\">0.500<", 19), 0);
    buffer_release(&html);
}
END_TEST

START_TEST(data_come_back)
{
    struct buffer html = write_page(NULL, NULL), data = {0}, again = {0};
    ck_assert(profile_page_data(html.data, html.length, &data));
    ck_assert_int_eq(data.data[0], '{');
    ck_assert_int_eq(data.data[data.length - 1], '}');
    ck_assert_ptr_nonnull(strstr(data.data, "\"runs\":2,\"ns\":5000"));
    /* A page with an earlier one in it has its own data first. */
    struct buffer both = write_page(data.data, NULL);
    ck_assert_uint_eq(count_of(both.data, "</script>"), 3);
    ck_assert(profile_page_data(both.data, both.length, &again));
    ck_assert_str_eq(data.data, again.data);
    buffer_release(&both);
    buffer_release(&again);
    /* Cut off anywhere before the data end, or of another form, there are none. */
    const size_t end = (size_t)(strstr(html.data, "</script>") - html.data) + strlen("</script>");
    for (size_t length = 0; length < end; length += 1 + (end - length) / 40)
        ck_assert(!profile_page_data(html.data, length, &again));
    ck_assert(!profile_page_data(html.data, end - 1, &again));
    ck_assert(profile_page_data(html.data, end, &again));
    strstr(html.data, "xcvm-profile-1")[13] = '2';
    ck_assert(!profile_page_data(html.data, html.length, &again));
    /* Markup within the data is none of ours. */
    static const char foreign[] = "<script type=\"application/json\" id=\"xcvm-profile-1\">{}<b></script>";
    ck_assert(!profile_page_data(foreign, strlen(foreign), &again));
    buffer_release(&html);
    buffer_release(&data);
    buffer_release(&again);
}
END_TEST

static void record(struct recording *recording, int32_t pc, int32_t in, int32_t out)
{
    const xcvm_span spans[] = {{0, 10, 20}, {1, 10, 25}};
    const xcvm_event event = {.pc = pc,
                              .start_ns = 10,
                              .end_ns = 30,
                              .live_bytes = 64,
                              .input_count = 1,
                              .output_count = 1,
                              .input_registers = &in,
                              .output_registers = &out,
                              .span_count = 2,
                              .spans = spans};
    recording_add(recording, &event);
}

START_TEST(recordings)
{
    struct recording r = {0};
    record(&r, 0, 0, 1);  /* an absent operand */
    record(&r, 1, -1, 2); /* a constant */
    record(&r, 2, 1, 3);
    record(&r, 3, 3, 1);
    record(&r, 2, 1, 3); /* a loop: now of what 3 made */
    record(&r, 3, 3, 1);
    record(&r, 4, 99, -5); /* a register that nothing wrote */
    ck_assert_uint_eq(r.step_count, 7);
    ck_assert_uint_eq(r.span_count, 14);
    ck_assert_uint_eq(r.spans[13].step, 6);
    recording_finish(&r);
    static const struct recorded_edge wanted[] = {{0, 2}, {3, 2}, {2, 3}};
    ck_assert_uint_eq(r.edge_count, 3);
    ck_assert_mem_eq(r.edges, wanted, sizeof wanted);
    for (size_t i = r.step_count; i < RECORDING_STEPS; i++)
        record(&r, 5, 0, 0);
    ck_assert(!r.cut);
    record(&r, 5, 0, 0);
    ck_assert(r.cut);
    ck_assert_uint_eq(r.step_count, RECORDING_STEPS);
    recording_release(&r);
}
END_TEST

START_TEST(peaks_are_measured)
{
    struct peaks measured = {0};
    peaks_measure(NULL, 1, &measured);
    ck_assert(measured.gflops > 0 && measured.gigabytes > 0);
    peaks_measure("no such instruction set", 1, &measured);
    ck_assert(measured.gflops == 0 && measured.gigabytes == 0);
}
END_TEST

Suite *suite_tools_profile_page(void);
Suite *suite_tools_profile_page(void)
{
    Suite *s = suite_create("tools_profile_page");
    TCase *c = tcase_create("page");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, names_are_text);
    tcase_add_test(c, phases);
    tcase_add_test(c, data_come_back);
    tcase_add_test(c, recordings);
    tcase_add_test(c, peaks_are_measured);
    suite_add_tcase(s, c);
    return s;
}
