#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/config/derived_settings.h"
#include "kolo/layout/spatial_network.h"
#include "kolo/parallel/device_mesh.h"

// How the ranks of a run share its work, as the section `parallel` of its configuration says.
namespace kolo {

class Network;
struct Objective;

// This rank's share.
struct WorkShare {
  std::optional<DeviceMesh> mesh;  // none where each rank is a replica of its own
  int replica = 0;                 // whose samples this rank draws ...
  int replicas = 1;                // ... among so many
  int replicas_here = 1;           // of virtual ranks: from that one on, so many

  [[nodiscard]] bool shares_samples() const { return mesh && mesh->spatial().size() > 1; }
  // See run/pipeline_share.h.
  [[nodiscard]] bool has_pipeline() const { return mesh && mesh->length(MeshAxis::pipe) > 1; }
};

// InputError where samples or network can't be shared so by that many ranks: it says what would
// fit. Before anything starts, and without communication.
void require_work_share(const RunConfig& config, const Datasets& datasets, const Network& network,
                        int ranks);

// Layers of the configured network, by which samples of this layout are cut; empty where it makes
// no fields.
[[nodiscard]] std::vector<FieldLayer> field_layers_of(const RunConfig& config,
                                                      const SampleLayout& layout);

// How ranks share each sample; none where each has samples of its own. The same errors.
[[nodiscard]] std::optional<SpatialNetworkPlan> sample_cut_of(const RunConfig& config,
                                                              const Datasets& datasets,
                                                              const Network& network);

// What there is to know of it, for the run's log; empty where each rank is a replica of its own.
struct WorkShareText {
  std::vector<std::string> lines, warnings;
};
[[nodiscard]] WorkShareText describe_work_share(const RunConfig& config, const Datasets& datasets,
                                                const Network& network, int ranks);

// Collective.
[[nodiscard]] WorkShare share_work(const RunConfig& config, const Communicator& communicator);

// Where samples are shared: no more is read of them than this rank's rows; the network computes
// those rows; the objective counts a sample once. `whole`: as made from the configuration. Local.
[[nodiscard]] Datasets share_datasets(const WorkShare& share, const Datasets& whole);
void share_objective(const WorkShare& share, const Datasets& whole, Objective& objective);
void share_network(const WorkShare& share, const Datasets& whole, Network& network);

// Reads Datasets::loads into memory. The ranks of a node keep it once, in memory that they share,
// and read a part of it each; where they can't share so much each has a copy, and a warning is
// added. The memory goes with the last rank, however that ends. Collective. Throws what reading
// throws, when the ranks need nothing more of each other.
void load_data(const Communicator& communicator, Datasets& datasets);

// Shows the network its first training samples, as they are in the first epoch, where it wants some
// (Network::first_samples()): rank 0's reads them, and all get its weights. What reading throws is
// thrown on rank 0. Collective.
void show_first_samples(const Communicator& communicator, const Dataset& training,
                        Network& network);

}  // namespace kolo
