#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/config/derived_settings.h"
#include "kolo/layout/spatial_network.h"
#include "kolo/parallel/device_mesh.h"

// Work of a run, shared by its ranks as the configuration's section `parallel` says, and its data.
namespace kolo {

class Network;
struct Objective;

// Share of this rank.
struct WorkPart {
  std::optional<DeviceMesh> mesh;  // none where each rank is a replica of its own
  int replica = 0;                 // first one whose samples this rank draws
  int replicas = 1;                // of all ranks
  int replicas_here = 1;           // of this rank: several where ranks are virtual

  [[nodiscard]] bool shares_samples() const { return mesh && mesh->spatial().size() > 1; }
  // See run/pipeline_part.h.
  [[nodiscard]] bool has_pipeline() const { return mesh && mesh->length(MeshAxis::pipe) > 1; }
};

// InputError where so many ranks can't share samples or network: it says what would fit. Doesn't
// communicate.
void require_sharing(const RunConfig& config, const Datasets& datasets, const Network& network,
                     int ranks);

// Layers of the configured network, by which samples are cut; empty where it makes no fields.
[[nodiscard]] std::vector<FieldLayer> field_layers_of(const RunConfig& config,
                                                      const SampleLayout& layout,
                                                      const ModelCatalogue& models);

// Cut of each sample; none where ranks don't share samples. The same errors.
[[nodiscard]] std::optional<SpatialNetworkPlan> sample_cut_of(const RunConfig& config,
                                                              const Datasets& datasets,
                                                              const Network& network);

// Description for the run's log; empty where ranks don't share samples.
struct SharingText {
  std::vector<std::string> lines, warnings;
};
[[nodiscard]] SharingText describe_sharing(const RunConfig& config, const Datasets& datasets,
                                           const Network& network, int ranks);

// Collective.
[[nodiscard]] WorkPart part_of_work(const RunConfig& config, const Communicator& communicator);

// Restricts data sets and network to this rank's rows where samples are shared, and makes the
// objective count a sample once. `whole`: as made from the configuration. Local.
[[nodiscard]] Datasets share_datasets(const WorkPart& share, const Datasets& whole);
void share_objective(const WorkPart& share, const Datasets& whole, Objective& objective);
void share_network(const WorkPart& share, const Datasets& whole, Network& network);

// Reads Datasets::loads into memory that the ranks of a node share, a part by each rank; where they
// can't share so much each has a copy, and a warning is added. The memory goes with the last rank,
// however that ends. Collective. Throws what reading throws, at the end.
void load_data(const Communicator& communicator, Datasets& datasets);

}  // namespace kolo
