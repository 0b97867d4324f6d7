/* Bash completion from the tables of subcommands, and from the library's tables of what options may name. */
#include "cli/completion.h"
#include "cli/options.h"

#include <xcvm/compiler.h>
#include <xcvm/train.h>

#include <stdio.h>
#include <string.h>

static const char *loss_at(size_t i)
{
    const xcc_loss_info *loss = xcc_loss_at(i);
    return loss != NULL ? loss->name : NULL;
}

static const char *optimizer_at(size_t i)
{
    const xcc_optimizer_info *optimizer = xcc_optimizer_at(i);
    return optimizer != NULL ? optimizer->name : NULL;
}

static const char *pass_at(size_t i) { return i < xcc_pass_count() ? xcc_pass_at(i)->name : NULL; }
static const char *operator_at(size_t i) { return i < xcc_operator_count() ? xcc_operator_at(i)->name : NULL; }

/* The name of an option's value in help selects the list of its values. Other values may be possible too. */
static const struct value_class {
    const char *argument;
    const char *(*at)(size_t index); /* NULL beyond the last */
    const char *more;                /* more values; may be NULL */
} value_classes[] = {
    {"LOSS", loss_at, NULL},
    {"OPTIMIZER", optimizer_at, NULL},
    {"SCHEDULE", xct_schedule_at, NULL},
    {"METRIC", xct_metric_at, NULL},
    {"METHOD", xcc_recompute_method_at, "custom:"},
    {"PASS", pass_at, "all"},
    {"OPERATOR", operator_at, NULL},
};

static const struct value_class *values_of(const struct option *option)
{
    for (size_t i = 0; option->argument != NULL && i < COUNT_OF(value_classes); i++)
        if (strcmp(option->argument, value_classes[i].argument) == 0)
            return &value_classes[i];
    return NULL;
}

static void name_values(struct buffer *text, const struct value_class *values)
{
    const char *name;
    for (size_t i = 0; (name = values->at(i)) != NULL; i++)
        buffer_format(text, "%s%s", i > 0 ? " " : "", name);
    if (values->more != NULL)
        buffer_format(text, " %s", values->more);
}

static void completion_command(struct buffer *text, const struct command *command)
{
    buffer_format(text, "        %s)\n            options=\"", command->name);
    for (size_t g = 0; g < command->group_count; g++)
        for (size_t i = 0; command->groups[g].options[i].name != NULL; i++) {
            const struct option *option = &command->groups[g].options[i];
            buffer_format(text, "--%s%s ", option->name, option->kind == OPTION_FLAG ? "" : "=");
        }
    buffer_text(text, "--help\"\n            case \"$option\" in\n");
    for (size_t g = 0; g < command->group_count; g++)
        for (size_t i = 0; command->groups[g].options[i].name != NULL; i++) {
            const struct option *option = &command->groups[g].options[i];
            char letter[8] = "";
            if (option->letter != 0)
                snprintf(letter, sizeof letter, "|-%c", option->letter);
            const struct value_class *values = values_of(option);
            if (values != NULL || option->kind == OPTION_CHOICE) {
                buffer_format(text, "                --%s%s) words=\"", option->name, letter);
                if (values != NULL)
                    name_values(text, values);
                else
                    for (const char *at = option->argument; *at != '\0'; at++)
                        buffer_append(text, *at == '|' ? " " : at, 1);
                buffer_text(text, "\" ;;\n");
            } else if (option->kind == OPTION_FILE || option->kind == OPTION_OUTPUT) {
                buffer_format(text, "                --%s%s) kind=file ;;\n", option->name, letter);
            } else if (option->kind == OPTION_FOLDER) {
                buffer_format(text, "                --%s%s) kind=folder ;;\n", option->name, letter);
            }
        }
    buffer_text(text, "            esac\n            ;;\n");
}

void completion_bash(struct buffer *text, const struct command *const *commands)
{
    buffer_text(text, "# bash completion for xcvm\n"
                      "_xcvm()\n{\n"
                      "    local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}\n"
                      "    local options= option= words= kind=\n"
                      "    COMPREPLY=()\n"
                      "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                      "        COMPREPLY=($(compgen -W \"");
    for (const struct command *const *command = commands; *command != NULL; command++)
        buffer_format(text, "%s ", (*command)->name);
    buffer_text(text, "help --version --man --completion\" -- \"$current\"))\n"
                      "        return\n    fi\n"
                      "    # An option and its value are one word here, or three when = breaks words.\n"
                      "    if [ \"$current\" = = ]; then\n"
                      "        option=${COMP_WORDS[COMP_CWORD-1]} current=\n"
                      "    elif [ \"${COMP_WORDS[COMP_CWORD-1]}\" = = ]; then\n"
                      "        option=${COMP_WORDS[COMP_CWORD-2]}\n"
                      "    elif [[ $current == --*=* ]]; then\n"
                      "        option=${current%%=*} current=${current#*=}\n"
                      "    elif [[ $current != -* && ${COMP_WORDS[COMP_CWORD-1]} == -* ]]; then\n"
                      "        option=${COMP_WORDS[COMP_CWORD-1]}\n"
                      "    fi\n"
                      "    case \"$command\" in\n"
                      "        help)\n            words=\"spec ");
    for (const struct command *const *command = commands; *command != NULL; command++)
        buffer_format(text, "%s ", (*command)->name);
    buffer_text(text, "\" option=help\n            ;;\n");
    for (const struct command *const *command = commands; *command != NULL; command++)
        completion_command(text, *command);
    buffer_text(text, "    esac\n"
                      "    if [ -n \"$words\" ]; then\n"
                      "        COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
                      "    elif [[ $current == @* ]]; then\n"
                      "        COMPREPLY=($(compgen -P @ -f -- \"${current#@}\"))\n"
                      "    elif [ \"$kind\" = folder ]; then\n"
                      "        COMPREPLY=($(compgen -d -- \"$current\"))\n"
                      "    elif [[ -z $option && $current == -* ]]; then\n"
                      "        COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
                      "        [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
                      "    else\n"
                      "        COMPREPLY=($(compgen -f -- \"$current\"))\n"
                      "        compopt -o filenames\n"
                      "    fi\n}\n"
                      "complete -F _xcvm xcvm\n");
}
