/* What the compiler has: passes, operators, optimizers, losses, methods, metrics, schedules. */
#include "compiler_module.h"

#include <xcvm/train.h>

/* Appends an item, which it takes. Returns false with an exception. */
static bool append(PyObject *list, PyObject *item)
{
    const bool good = item != NULL && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return good;
}

static PyObject *pass_list(void)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < xcc_pass_count(); i++) {
        const xcc_pass_info *pass = xcc_pass_at(i);
        if (!append(list, Py_BuildValue("(ssii)", pass->name, pass->summary, pass->level, pass->rounds)))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *operator_list(void)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < xcc_operator_count(); i++) {
        const xcc_operator_info *info = xcc_operator_at(i);
        if (!append(list, Py_BuildValue("(ssss)", info->domain, info->name, info->versions, info->lowering)))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *optimizer_list(void)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && xcc_optimizer_at(i) != NULL; i++) {
        PyObject *settings = PyList_New(0);
        const xcc_setting_info *setting;
        for (size_t k = 0; settings != NULL && (setting = xcc_optimizer_setting_at(i, k)) != NULL; k++)
            if (!append(settings, Py_BuildValue("(sss)", setting->name, setting->value, setting->summary)))
                Py_CLEAR(settings);
        const xcc_optimizer_info *info = xcc_optimizer_at(i);
        if (settings == NULL || !append(list, Py_BuildValue("(ssN)", info->name, info->summary, settings)))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *loss_list(void)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && xcc_loss_at(i) != NULL; i++)
        if (!append(list, Py_BuildValue("(ss)", xcc_loss_at(i)->name, xcc_loss_at(i)->summary)))
            Py_CLEAR(list);
    return list;
}

static PyObject *text_list(const char *(*at)(size_t))
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && at(i) != NULL; i++)
        if (!append(list, PyUnicode_FromString(at(i))))
            Py_CLEAR(list);
    return list;
}

PyObject *compiler_lists(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return Py_BuildValue("{sNsNsNsNsNsNsNsN}", "passes", pass_list(), "operators", operator_list(), "optimizers",
                         optimizer_list(), "losses", loss_list(), "recomputations", text_list(xcc_recompute_method_at),
                         "metrics", text_list(xct_metric_at), "schedules", text_list(xct_schedule_at), "options",
                         options_names());
}
