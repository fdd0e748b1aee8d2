// What an emulated GPU computes: each op by the kernel that the CPU has for it.

#ifndef TESTS_EMULATOR_KERNELS_H_
#define TESTS_EMULATOR_KERNELS_H_

#include <memory>
#include <string>
#include <utility>

#include "device.h"
#include "kernel_log.h"
#include "status.h"
#include "tensorflow/compiler/jit/xla_kernel_creator.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/memory_types.h"
#include "tensorflow/core/framework/node_properties.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace emulator {

using Properties = std::shared_ptr<const tensorflow::NodeProperties>;

// A kernel of the GPU, as TensorFlow sees it: with the memory types of the one that is registered
// for it. It leaves the work to the CPU's, for all memory is the host's.
class SyncKernel : public tensorflow::OpKernel {
 public:
  SyncKernel(tensorflow::OpKernelConstruction* construction, std::unique_ptr<OpKernel> on_cpu)
      : OpKernel(construction), on_cpu_(std::move(on_cpu)) {}

  void Compute(tensorflow::OpKernelContext* context) override { on_cpu_->Compute(context); }
  const tensorflow::Tensor* const_tensor() const override { return on_cpu_->const_tensor(); }

 private:
  const std::unique_ptr<OpKernel> on_cpu_;
};

// The same for an op that ends on another thread than it began on: calls, receives, queues.
class AsyncKernel : public tensorflow::AsyncOpKernel {
 public:
  AsyncKernel(tensorflow::OpKernelConstruction* construction, std::unique_ptr<OpKernel> on_cpu)
      : AsyncOpKernel(construction), on_cpu_(std::move(on_cpu)) {}

  void ComputeAsync(tensorflow::OpKernelContext* context, DoneCallback done) override {
    on_cpu_->AsAsync()->ComputeAsync(context, std::move(done));
  }

 private:
  const std::unique_ptr<OpKernel> on_cpu_;
};

// What the graph optimizer makes of a batch norm on a GPU, with the ops after it. The CPU's kernel
// for it is a stub, so this computes the batch norm by the kernel of `FusedBatchNormV3`.
class BatchNormKernel : public tensorflow::OpKernel {
 public:
  BatchNormKernel(tensorflow::OpKernelConstruction* construction, std::unique_ptr<OpKernel> norm)
      : OpKernel(construction), norm_(std::move(norm)) {
    OP_REQUIRES_OK(construction, construction->GetAttr("activation_mode", &activation_));
  }

  // The node of the batch norm alone.
  static Properties Norm(const tensorflow::NodeDef& node) {
    tensorflow::NodeDef norm = node;
    norm.set_op("FusedBatchNormV3");
    for (const char* name : {"activation_mode", "num_side_inputs"}) norm.mutable_attr()->erase(name);
    Properties found;
    const Status status = tensorflow::NodeProperties::CreateFromNodeDef(
        std::move(norm), tensorflow::OpRegistry::Global(), &found);
    return status.ok() ? found : nullptr;
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    norm_->Compute(context);
    tensorflow::Tensor* y = context->status().ok() ? context->mutable_output(0) : nullptr;
    if (y == nullptr) return;
    OP_REQUIRES(context, y->dtype() == tensorflow::DT_FLOAT,
                tensorflow::errors::Unimplemented("The emulated GPU fuses only float32"));
    auto values = y->flat<float>();
    if (context->num_inputs() > kSideInput) values += context->input(kSideInput).flat<float>();
    if (activation_ == "Relu") values = values.cwiseMax(0.0f);
  }

 private:
  static constexpr int kSideInput = 5;
  const std::unique_ptr<OpKernel> norm_;
  std::string activation_;
};

// An op that only a GPU can compute (cuDNN's): it is placed as ever, and fails when it runs.
class ImpossibleKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    context->SetStatus(tensorflow::errors::Unimplemented(
        "The emulated GPU cannot compute ", type_string(), ": the CPU has no kernel for it"));
  }
};

// Makes the kernels of emulated GPUs; those of other devices TensorFlow makes as ever.
//
// TensorFlow asks one creator before it looks into its registry, and this replaces XLA's, so it is
// one of XLA's too. For functions on an emulated GPU it makes none: what XLA should have compiled
// there is run op by op.
class KernelCreator : public tensorflow::XlaKernelCreator {
 public:
  explicit KernelCreator(KernelLog* log) : log_(log) {}

  bool CanCreateKernel(const tensorflow::FunctionLibraryRuntime& runtime,
                       const Properties& properties) const override {
    log_->Add(properties->node_def, runtime.device()->name());
    if (dynamic_cast<const Device*>(runtime.device()) == nullptr) {
      return XlaKernelCreator::CanCreateKernel(runtime, properties);
    }
    const tensorflow::NodeDef& node = properties->node_def;
    return runtime.GetFunctionLibraryDefinition()->Find(node.op()) == nullptr &&
           tensorflow::FindKernelDef(OnGpu(), node, nullptr, nullptr).ok();
  }

  Status CreateKernel(tensorflow::FunctionLibraryRuntime* runtime, const Properties& properties,
                      std::unique_ptr<tensorflow::OpKernel>* kernel) const override {
    tensorflow::Device* device = runtime->device();
    if (dynamic_cast<Device*>(device) == nullptr) {
      return XlaKernelCreator::CreateKernel(runtime, properties, kernel);
    }
    const tensorflow::NodeDef& node = properties->node_def;
    const bool is_fused = node.op() == "_FusedBatchNormEx";
    const Properties computed = is_fused ? BatchNormKernel::Norm(node) : properties;
    tensorflow::Allocator* memory = device->GetAllocator(tensorflow::AllocatorAttributes());
    std::unique_ptr<tensorflow::OpKernel> on_cpu;
    if (computed != nullptr &&
        tensorflow::FindKernelDef(OnCpu(), computed->node_def, nullptr, nullptr).ok()) {
      tensorflow::OpKernel* made = nullptr;
      const Status status = tensorflow::CreateOpKernel(
          OnCpu(), device, memory, runtime, device->resource_manager(), computed,
          runtime->graph_def_version(), &made);
      if (!status.ok()) return status;
      on_cpu.reset(made);
    }
    tensorflow::MemoryTypeVector inputs, outputs;
    Status status = tensorflow::MemoryTypesForNode(tensorflow::OpRegistry::Global(), OnGpu(), node,
                                                   &inputs, &outputs);
    if (!status.ok()) return status;
    tensorflow::OpKernelConstruction construction(
        OnGpu(), device, memory, runtime, device->resource_manager(), properties, inputs, outputs,
        runtime->graph_def_version(), &status);
    if (on_cpu == nullptr) {
      *kernel = std::make_unique<ImpossibleKernel>(&construction);
    } else if (is_fused) {
      *kernel = std::make_unique<BatchNormKernel>(&construction, std::move(on_cpu));
    } else if (on_cpu->AsAsync() != nullptr) {
      *kernel = std::make_unique<AsyncKernel>(&construction, std::move(on_cpu));
    } else {
      *kernel = std::make_unique<SyncKernel>(&construction, std::move(on_cpu));
    }
    return status;
  }

 private:
  static tensorflow::DeviceType OnGpu() { return tensorflow::DeviceType("GPU"); }
  static tensorflow::DeviceType OnCpu() { return tensorflow::DeviceType("CPU"); }

  KernelLog* const log_;
};

}  // namespace emulator

#endif  // TESTS_EMULATOR_KERNELS_H_
