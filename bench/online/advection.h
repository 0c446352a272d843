#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace kolo {

// The solver of the steps that are timed: a wave on a periodic square of 32 by 32 points that moves
// at a constant velocity, computed from its formula. What a network is to learn is the divergence
// of its flux, as in TorchFort's example `simulation`. A batch is one wave at several moments.
class Advection {
 public:
  static constexpr std::int64_t points = 32;

  Advection(std::int64_t batch, int rank)
      : batch_(batch), time_(.1 * rank), fields_(size()), divergences_(size()) {}

  // The next batch.
  void advance() {
    float* field = fields_.data();
    float* divergence = divergences_.data();
    for (std::int64_t sample = 0; sample < batch_; ++sample) {
      time_ += 1e-3;
      const Wave x(time_, velocity_x), y(time_, velocity_y);
      for (std::size_t i = 0; i < points; ++i) {
        for (std::size_t j = 0; j < points; ++j) {
          *field++ = x.sine[i] * y.sine[j];
          *divergence++ = x.slope[i] * y.sine[j] + x.sine[i] * y.slope[j];
        }
      }
    }
  }

  [[nodiscard]] std::int64_t batch() const { return batch_; }
  [[nodiscard]] const std::vector<float>& fields() const { return fields_; }
  [[nodiscard]] const std::vector<float>& divergences() const { return divergences_; }

 private:
  static constexpr double velocity_x = 1, velocity_y = .789;

  // A wave along one axis, and its slope times the velocity.
  struct Wave {
    float sine[points], slope[points];

    Wave(double time, double velocity) {
      for (std::int64_t i = 0; i < points; ++i) {
        const double phase =
            2 * std::numbers::pi * (static_cast<double>(i) / points - velocity * time);
        sine[i] = static_cast<float>(std::sin(phase));
        slope[i] = static_cast<float>(velocity * std::cos(phase));
      }
    }
  };

  [[nodiscard]] std::size_t size() const {
    return static_cast<std::size_t>(batch_ * points * points);
  }

  std::int64_t batch_;
  double time_;
  std::vector<float> fields_, divergences_;
};

}  // namespace kolo
