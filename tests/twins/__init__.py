"""Slow, obvious NumPy twins of the fast code. Sequential, dense, one idea per file; nothing here imports paloma.

`points` knows the twin of each point of `axes`. Every compiled loop has a twin, and a test that compares the two:

| compiled | twin | test |
|---|---|---|
| steps.take | stacked.run | test_axes, test_exactness |
| steps.step_size | steps.step_size | test_oracles, test_streams (logistic roots) |
| steps.squared_norm | stacked.run: the norm of Psi, literally | test_axes, test_exactness (degenerate triplets) |
| stream.distance_stream | stacked.run | test_axes (block auto), test_exactness |
| stream.similarity_stream | stacked.run | test_axes (block auto), test_exactness |
| sweep.sweep | stacked.run | test_axes (blocks), test_exactness |
| sweep.spread | stacked.run | test_axes (blocks) |
| sweep.correct | stacked.run | test_axes (blocks of local learners), test_exactness (two rhythms) |
| pairs.differences | stacked.gradient | test_axes (blocks of distances) |
| pairs.scaled_rows | stacked.gradient | test_axes (blocks of similarities) |
| norms.distance_norms | stacked.run: the norm of Psi | test_axes, test_exactness |
| norms.side_norms | stacked.run: the norm of Psi | test_feedback_fast (norms, metrics) |
| norms.similarity_norms | stacked.run: the norm of Psi | test_axes, test_exactness |
| dual.dual_sweep | stacked.run | test_points |
| dual.change_by | stacked.run | test_points |
| dual.enter | stacked.run | test_points |
| dual.distinct_points | stacked.run | test_points |
| dual.point_forms | stacked.run | test_points |
| dual.spread_differences | stacked.gradient | test_points |
| dual.spread_rows | stacked.gradient | test_points |
| drift.enter | reading.drift | test_streams (drift signals) |
| members.distinct_pairs | members.distinct_pairs | test_twins |
| members.members_of_parts | members.members_of_parts | test_twins |
| members.signed_rows | stacked.gradient | test_axes (blocks of distances) |
| soft.soft_sweep | regions.run_soft | test_axes, test_regions (with forgetting) |
| sparse.sparse_stream | stacked.run | test_axes (CSR), test_twins (forgetting, weights), test_forgetting, test_pairs |
| sparse.sparse_norms | stacked.run: the norm of Psi | test_mining_blocks (sparse blocks) |
| sparse.sparse_values | stacked.run | test_mining_blocks (sparse blocks) |
| sparse.sparse_sweep | stacked.run | test_mining_blocks (sparse blocks) |
| sparse.sparse_move | stacked.run | test_mining_blocks (sparse blocks) |
| diagonal.diagonal_stream | diagonal.run | test_axes, test_diagonal |
| logdet.logdet_sweep | logdet.run | test_axes, test_logdet |
| logdet.logdet_step | logdet.closed_step, logdet.dual_step | test_logdet_step |
| logdet.rates_of | logdet.slope | test_logdet, test_logdet_step |
| fading.fading_sweep | logdet.run with forget | test_forgetting |
| joint.joint_sweep | modalities.run, Full | test_axes (one gate), test_modalities |
| joint.joint_stream | modalities.run, Full and Factor | test_axes (one gate, low rank), test_modalities |
| joint.weighted | modalities.weights_after | test_axes (one gate, psd inside the loop), test_modalities |
| index.index_sweep | kernel.run | test_axes, test_kernel |
| index.add_product | kernel.value | test_axes, test_kernel |
| index.gather | kernel.run | test_kernel (kernel values kept or computed again) |
| pairs.inner | neighbors.local_values | test_neighbors |
| pairs.paired | kernel.value; projected.run_projected | test_axes, test_kernel; test_twins |
| pairs.pair_distances | mining.squared_distances; projected.run_projected | test_triplets; test_twins |
| products.row_forms | stacked.run | test_axes (blocks of distances), test_vectors |
| products.subtract_rows | stacked.gradient | test_axes (blocks of distances), test_vectors |
| products.gram_of | stacked.run | test_axes (blocks of distances), test_vectors |
| dense.quadratic_rows | stacked.run | test_axes (blocks of distances) |
| dense.quadratic_forms | neighbors.local_neighbors | test_readout (one query) |
| dense.pair_forms | neighbors.local_neighbors | test_projected (many classes) |
| dense.mirror_upper | stacked.run | test_axes (blocks of distances) |
| dense.move_toward | reading.averaged | test_twins |
| tridiagonal.count_below | reading.tridiagonal_pairs | test_readout |
| tridiagonal.lowest_pairs | reading.tridiagonal_pairs | test_readout |
| few.learn_few | stacked.run | test_feedback_fast (one statement) |
| codes.coded_values | neighbors.coded_values | test_feedback_fast |
| topk.nearest_mixed | neighbors.mixed_shares | test_guard |
| topk.merge_local | neighbors.local_neighbors | test_neighbors, test_twins |
| topk.class_minima | neighbors.local_neighbors | test_neighbors (very many classes) |
| topk.merge_classes | neighbors.local_neighbors | test_neighbors (very many classes) |
| topk.merge_shared | mining.targets_impostors; neighbors.local_neighbors | test_triplets; test_neighbors |
| topk.merge_columns | mining.targets_impostors | test_triplets |
| topk.nearest_members | mining.targets_impostors | test_triplets, test_mining_blocks (small classes and data) |

`careful` and `logdet.careful_run` are the same algorithms as fast as one-triplet-at-a-time NumPy goes; the benchmarks
compare with them. A class code of -1 is class-free.
"""
