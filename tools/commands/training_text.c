/* Text output of a training: a line per epoch, and a summary at its end. */
#include "commands/training_text.h"
#include "cli/buffer.h"
#include "cli/report.h"

#include <math.h>
#include <stdio.h>

static void append_result(struct buffer *text, const xct_result *result)
{
    buffer_format(text, "loss %.4g", result->loss);
    if (isfinite(result->loss_error))
        buffer_format(text, " ± %.2g", result->loss_error);
    for (size_t i = 0; i < result->metric_count; i++) {
        buffer_format(text, "  %s %.4g", result->metrics[i].name, result->metrics[i].value);
        if (isfinite(result->metrics[i].error) && isfinite(result->loss_error))
            buffer_format(text, " ± %.2g", result->metrics[i].error);
    }
}

static void append_time(struct buffer *text, double seconds)
{
    long left = seconds < 1e8 ? lround(seconds) : 99999999;
    if (left >= 3600)
        buffer_format(text, "%ld:%02ld:%02ld", left / 3600, left / 60 % 60, left % 60);
    else
        buffer_format(text, "%ld:%02ld", left / 60, left % 60);
}

/* A line with the means of the epoch, for the terminal or a file. */
static void print_epoch(struct progress *progress, const xct_progress *p)
{
    struct buffer line = {0};
    progress_end(progress);
    buffer_format(&line, "epoch %llu%s  step %llu  ", (unsigned long long)p->epoch,
                  p->epoch_ends ? "" : " (a part of it)", (unsigned long long)p->step);
    append_result(&line, p->training);
    if (p->validation != NULL) {
        buffer_text(&line, "  validation ");
        append_result(&line, p->validation);
    }
    printf("%s  %.0f samples/s\n", buffer_string(&line), p->samples_per_second);
    fflush(stdout);
    buffer_release(&line);
}

void training_text_step(struct progress *progress, const xct_progress *p)
{
    struct buffer text = {0};
    buffer_format(&text, "epoch %llu/%llu  ", (unsigned long long)p->epoch, (unsigned long long)p->epochs);
    append_result(&text, p->batch);
    buffer_format(&text, "  %.0f samples/s  ", p->samples_per_second);
    append_time(&text, p->seconds_left);
    buffer_text(&text, " left");
    progress_show(progress, buffer_string(&text), (double)p->step / (double)p->steps);
    if (p->training != NULL)
        print_epoch(progress, p);
    buffer_release(&text);
}

/* A line for each figure, as scripts read them. */
static void print_figures(const char *what, const xct_result *result)
{
    printf("%sloss %.6g\n", what, result->loss);
    for (size_t i = 0; i < result->metric_count; i++)
        printf("%s%s %.6g\n", what, result->metrics[i].name, result->metrics[i].value);
}

void training_text_report(const xct_fit_report *report, int64_t patience, const char *output,
                          const struct processes *processes)
{
    if (report->left_over)
        report_line("note: the last examples of each epoch are left out, because they do not fill a batch of the "
                    "model's fixed size");
    if (report->end == XCT_END_STOPPED)
        report_line("stopped after step %llu%s%s%s", (unsigned long long)report->steps,
                    report->checkpoint[0] != '\0' ? "; --resume goes on from " : "", report->checkpoint,
                    report->checkpoint[0] != '\0' ? "" : ", without a checkpoint");
    if (report->steps_taken == 0 && report->end != XCT_END_STOPPED)
        report_line(
            "nothing to do: %s is of step %llu, where this training ends. Ask for more with --epochs or --steps%s%s%s",
            report->checkpoint, (unsigned long long)report->steps,
            output != NULL ? ". The model is written again to " : "", output != NULL ? output : "",
            output != NULL ? " from that checkpoint" : "");
    if (report->end == XCT_END_PATIENCE)
        printf("stopped early: %lld epochs have brought no better loss\n", (long long)patience);
    printf("steps %llu\n", (unsigned long long)report->steps);
    if (processes->count > 1)
        printf("processes %d, sums by %s\ngradient sums %llu\n", processes->count,
               processes_allocator() != NULL ? "shared memory" : "messages", (unsigned long long)processes_sum_count());
    if (report->best_step > 0)
        printf("best step %llu\nbest loss %.6g\n", (unsigned long long)report->best_step, report->best_loss);
    if (report->training.examples > 0) /* a resumption may find nothing left to learn */
        print_figures("", &report->training);
    if (report->validation.examples > 0)
        print_figures("validation ", &report->validation);
}
