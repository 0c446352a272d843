#pragma once

#include <utility>

#include <torch/autograd.h>
#include <torch/custom_class.h>

#include "kolo/comm/communicator.h"

// Communicators in autograd functions of one's own (torch::autograd::Function), whose backward
// communicates as their forward does. Functions that are there already:
// kolo/parallel/differentiable_collectives.h.
namespace kolo {

// A communicator among what autograd keeps from forward to backward.
struct AutogradCommunicator : torch::CustomClassHolder {
  explicit AutogradCommunicator(Communicator ranks) : communicator(std::move(ranks)) {}
  Communicator communicator;
};

// Keeps it in forward, for kept_communicator() in backward. One a function.
inline void keep_communicator(torch::autograd::AutogradContext* context,
                              const Communicator& communicator) {
  context->saved_data["communicator"] =
      c10::IValue::make_capsule(c10::make_intrusive<AutogradCommunicator>(communicator));
}

inline Communicator kept_communicator(torch::autograd::AutogradContext* context) {
  const auto capsule = context->saved_data["communicator"].toCapsule();
  return static_cast<AutogradCommunicator&>(*capsule).communicator;
}

}  // namespace kolo
