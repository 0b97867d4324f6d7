/* The module's header: the messages of an ONNX model. Other modules include this header only. */
#ifndef XCVM_COMPILER_ONNX_MODEL_ONNX_MODEL_H
#define XCVM_COMPILER_ONNX_MODEL_ONNX_MODEL_H

#include "compiler/onnx_model/external_data.h"
#include "compiler/onnx_model/inference_form.h"
#include "compiler/onnx_model/message.h"
#include "compiler/onnx_model/model_file.h"
#include "compiler/onnx_model/tensor_proto.h"
#include "compiler/onnx_model/weights.h"
#include "compiler/onnx_model/wire.h"

#endif
