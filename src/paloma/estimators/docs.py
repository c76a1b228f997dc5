"""The parameters that all learners share, documented once and put into each class's docstring."""

STEPS = """\
step : {"pa1", "pa", "pa2", "smooth", "logistic", "ramp", "rescaled"}
        The step rule, i.e. the loss: hinge (pa1, the paper's), hard margin (pa, ignores C), squared hinge (pa2), smooth
        hinge, logistic, and two robust ones: ramp, which takes no step on a triplet whose loss reaches its level, and
        the rescaled hinge, whose steps fade as the loss grows.
    step_params : dict, optional
        Constants of the rule: smooth {"gamma": .5}, ramp {"level": 1.7}, rescaled {"eta": .5, "beta": 1/(1-exp(-eta))}.
    margin : float
        The 1 of the hinge, in scaled units. Margin m from the start I with C is margin 1 from I/m with C/m: a larger
        margin gives the data more influence relative to the identity.
    forget : float in [0, 1)
        Before each triplet, the parameters move this fraction of the way back to the start, so that what was learned
        1/forget triplets ago has faded: for streams that drift (docs/streams.md). Needs psd "never" or "end".
"""

MATRICES = """\
    psd : {"never", "end", "step", "exact"} or int
        When U and the L_c are made positive semidefinite: never; at read-out only (learning continues from the raw
        state); after each step, by one eigenpair; by exact constrained steps; or every n triplets.
    project : {"auto", "components", "effective"}
        What psd="end" makes p.s.d.: the components U and L_c, as in the paper, or the metrics M_c themselves, which is
        all that is needed and loses less (on faces with 44 rows per class, .964 vs. .929). "auto" is "effective" once
        labels have formed triplets, and "components" if only given triplets were learned.
    scale : {"auto", "full", "low-rank", "diagonal", "scalar"} or None
        "scalar" divides X by one number, so that what the first triplets compare has a typical size (their pairs have a
        mean squared distance of 2; for a similarity, their points have a mean squared norm of 64): C and margin then
        work in any units. "full" whitens X before that, half-way: rows become X W, W = S^(-1/4) with S the shrunk
        scatter of the differences between rows that should be near, so that learning starts at W W instead of the
        identity (`init` as a matrix stays where it is). "low-rank" does so in the 64 strongest directions of S and
        takes all others as alike, without a d x d matrix; "diagonal" does so column by column. "auto" is "full" for
        ODML, LODML and SLMOML up to 1,536 features and "low-rank" beyond, "low-rank" for L2ODML, "diagonal" in place of
        both if X is sparse, and "scalar" for all others; if `fit` mines dense rows, it also judges by their labels
        whether features are first divided by their standard deviations and, below 800 rows, whether to whiten at all.
        A stream is whitened by "auto" only if its first triplets have as many pairs of near rows as there are features.
        None takes X as it is.
    guard : "auto", True or False
        After `fit` from labels, rows judge how far the metrics follow what was learned (`strength_`), and how far its
        local part (`local_share_`): two halves by what the other one teaches, or 400 of many rows by others. If labels
        are noisy or few, this keeps the metrics near the start. A stream judges rows before it learns them, by those
        that it keeps: most of its first rows, later ever fewer; triplets and pairs without labels, by the votes of the
        rows of X. Metrics follow what was learned as far as a gain over the start is certain. "auto" is True unless
        scale is None, and False for OMDML with rank.
    average : "auto", True or False
        Read out a running average of the iterates instead of the last one ("auto": unless given triplets are learned in
        a single pass). One iterate every 1,024 triplets enters it, so shorter streams read out the last one. `shared_`
        and `local_` are always the last iterates.
    init : "identity" or (d, d) array in the units of X
        Where U and every L_c start.
"""

TRIPLETS = """\
    unlabeled : label, optional
        The label that marks unlabeled rows, e.g. -1: never a class, and never a vote; `semi` says what such rows teach.
    semi : {"neighbors", "self", "both", "none"}
        What rows marked `unlabeled` teach: only the shared part, that near rows are closer than far ones ("neighbors");
        or the same as rows of the class that their nearest labeled rows agree on ("self"). Unless "none", rows that
        pass this gate also vote in a MetricKNeighborsClassifier.
    semi_params : dict, optional
        {"share": .8, "quantile": .9}, the agreement gate; {"weight": 1, "neighbor_weight": .3}, triplet weights.
    n_targets, n_impostors : int
        For triplets from labels: how many nearest rows of the anchor's class, and at most how many of other classes.
    impostor_margin : float
        How much farther than the farthest target an impostor may be, in units of the mean squared distance.
    least_impostors : int or "auto"
        Nearest rows of other classes that are impostors however far they are: "auto" is as many as `n_targets`, so that
        no class is without a voice; an anchor without impostors could never resist what others do to the metric of its
        neighbors. 0 is the paper's rule.
    n_epochs : int
        Passes of `fit` over the triplets.
    remine : bool
        Mine the triplets again before each further pass, under the current shared metric.
    early_stopping, validation_fraction : bool, float
        Hold out this fraction of the anchors and stop when the ranking of their triplets no longer improves.
    reservoir_size : int
        Rows per class that `partial_fit` remembers to form triplets with.
    memory : {"auto", "sample", "window"}
        Which rows these are: a uniform sample of all rows so far, or the last ones. "auto" is "window" with forgetting.
    balanced : bool
        Draw the anchors of triplets from labels evenly across classes, however frequent each class is. In
        `partial_fit`, as many remembered rows as there are new ones become anchors again, evenly: use it if classes
        arrive one after another.
    pair_threshold : float or "auto"
        The squared distance, or similarity, under the learned metric that separates similar from dissimilar pairs.
        "auto": estimated from the first pairs, which should then be a fair sample of both kinds.
    block_size : int or "auto"
        Triplets learned in one block. This affects speed, never the result.
    device : None, "auto", or a device as torch spells it
        Where OASIS, ODML, LOSL and LODML learn, mine and search: "cuda", "cuda:1", "cpu" (by torch), "auto" (a GPU if
        there is one). None: where X is, if it is a tensor on a GPU, else on the CPU without torch. The other learners
        are on the CPU, wherever X is. See docs/gpu.md.
    n_jobs : int or None
        At most how many threads large matrix products take, -1: as many as there are CPUs. Small ones always run on
        one. None: as many as this process may use (docs/speed.md).
    random_state : int, RandomState or None
        Seed for the order of the anchors and the reservoir.
    verbose : int
        Above 0, what is running and how far it is, on stderr: a bar, or off a terminal a line every ten seconds.

    Attributes
    ----------
"""

ATTRIBUTES = """\
    shared_ : (d, d) array, the last iterate of U in whitened, scaled units.
    local_ : (n_classes, d, d) array, the same for L of classes_[k]; empty for a global learner.
"""

COUNTS = """\
    classes_, n_features_in_, scale_ : labels in order; number of features; the number X is divided by.
    whitener_ : what X is multiplied by before that: (d, d), (d,) if diagonal, or None; see `scale`.
    strength_, local_share_ : what the guard chose, in [0, 1]; strength_ is 1 without a guard.
    n_triplets_, n_updates_, loss_ : triplets seen, steps taken, mean hinge loss of the last pass.
    recent_loss_, long_run_loss_, drift_ : (n_classes,) arrays, drift signals: mean loss of the triplets of classes_[k]
        recently and in the long run, each before its own step, and their ratio; NaN for a class without triplets.
    mined_ : dict, after `fit` from labels: the number of anchors, how many of them formed no triplets because they were
        alone in their class or had no impostor, and the number of triplets; "search" is "exact" if all rows were
        compared with all, "candidates in 256 directions" if L2ODML or L2OSL compared many rows there first. Beyond
        65,536 labeled rows it is "blocks of N": random blocks of rows with a share of every class mine among
        themselves, other blocks in each epoch, and the numbers are those of the first epoch.
"""

REGIONS = """\
regions : int, clusterer or function, optional
        Localize by where a row lies instead of by its class, so that neither queries nor items need labels: a number of
        regions to find by online k-means, an object with `predict`, or a function from rows to region numbers. `local_`
        then has one L per region.
    soft_regions : bool
        A row belongs to several regions, by its distances to their centers or by `predict_proba`.
"""
COMMON = STEPS + MATRICES + TRIPLETS + ATTRIBUTES + COUNTS

KERNEL_MATRICES = """\
    lam : float in [0, 1]
        Weight of the shared part. 1 learns one form for all classes, 0 learns each class by itself; see LOSL.
    normalize : bool
        Compare by k(x, z) / sqrt(k(x, x) k(z, z)). Use it for kernels whose k(x, x) varies, such as polynomials.
    budget : int or None
        Maximum number of support rows, at least 3; None means no limit. The cost of learning, memory, and prediction is
        proportional to it.
    when_full : {"keep", "forget"}
        What happens to a step that needs more rows than the budget allows. keep: it is skipped; steps among support
        rows continue. forget: the eighth of the support whose last step is oldest is dropped with all its steps, which
        follows a drifting stream but costs accuracy if nothing drifts.
    measure : {"similarity", "distance"}
        What is learned in feature space: a similarity, or a squared distance (phi(p) - phi(q))^T M (phi(p) - phi(q)),
        of which `pair_score` is minus the root. A distance is never made p.s.d. and needs small steps.
    cache_size : float
        Megabytes of kernel values to keep during a call: m n^2 values for n rows and m kernels. Beyond that, values are
        recomputed for each block, which is slower. Search keeps transformed items within the same limit.
    psd, project : "never", "auto"
        No effect: there is no matrix to project, and psd accepts no other value.
    guard : "auto", True or False
        As for other learners: rows judge how far the measure follows what was learned (`strength_`). "auto" is True
        unless scale is None or the kernel precomputed.
    scale : "auto", "scalar" or None
        "auto" and "scalar" divide X by one number, so that rows of the first triplets have a mean squared distance of
        d, the number of features: scikit-learn's default gamma = 1/d then gives typical rows the RBF value exp(-1), in
        any units.
        Kernel values are further multiplied by `gain_`, so that k(x, x) has mean 64 (squared distances: mean 2), as
        OASIS scales its rows. None uses X and the kernel as they are.
    average : "auto", True or False
        Read out a running average of the iterates instead of the last one ("auto": unless given triplets are learned in
        a single pass). One iterate every 1,024 triplets enters it, so shorter streams read out the last one. `shared_`
        and `local_` are always the last iterates.
    init : "identity" or "zero"
        Where U and every L_c start: scores start as k(p, q), or as 0.
"""

KERNEL_ATTRIBUTES = """\
    support_ : (n_support, d) rows that steps touched; row numbers if the kernel is precomputed.
    shared_ : (n_support, n_support) array: U less its start is the sum of shared_[i, j] phi(x_i) phi(x_j)^T over the
        support, phi of the scaled kernel; the last iterate. One such array per kernel for OMKS.
    local_ : (n_classes, ...) arrays, the same for L of classes_[k].
    gain_ : the factor that kernel values are multiplied by.
"""

KERNEL_COMMON = STEPS + KERNEL_MATRICES + TRIPLETS + KERNEL_ATTRIBUTES + COUNTS

# What stands for {words} in docstrings.
TEXTS = {"common": COMMON, "regions": REGIONS}
KERNEL_TEXTS = {"common": KERNEL_COMMON}
