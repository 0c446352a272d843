#pragma once

#include "kolo/optim/catalogue.h"
#include "settings/choice_reader.h"

// The keys of optimizers and of learning rates, for all rooms that read them.
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
  field("sharded", optimizer.sharded, AnyBool{});
}

template <typename Field>
void visit_warmup(Field& field, RateSettings& rates) {
  field("lr_warmup_steps", rates.lr_warmup_steps, not_negative);
  field("lr_warmup_from", rates.lr_warmup_from,
        NumberRule{" from 0 to 1", [](long double x) { return x >= 0 && x <= 1; }});
}

template <typename Field>
void visit_decay(Field& field, RateSettings& rates) {
  field(choice_of(rates.lr_decay, rates.lr_decay_own, built_in_schedules(), "lr_decay",
                  Presence::optional));
}

}  // namespace kolo
