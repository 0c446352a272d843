#pragma once

#include "kolo/optim/catalogue.h"
#include "settings/choice_reader.h"

// The keys of an optimizer's section, for all rooms that read one.
namespace kolo {

template <typename Field>
void visit(Field& field, OptimizerConfig& optimizer) {
  field(choice_of(optimizer.name, optimizer.own, built_in_optimizers()));
  field("lr", optimizer.lr, positive);
  field("lr_scaling", optimizer.lr_scaling, AnyName{});
  field("weight_decay", optimizer.weight_decay, not_negative);
  field("decoupled_decay", optimizer.decoupled_decay, AnyBool{});
  field("decay_excludes_vectors", optimizer.decay_excludes_vectors, AnyBool{});
  field("shared_step", optimizer.shared_step, AnyBool{});
  field("shared_parameters", optimizer.shared_parameters, AnyBool{});
  field("sharded", optimizer.sharded, AnyBool{});
}

}  // namespace kolo
