"""The parameters that all learners share, documented once and put into each class's docstring."""

STEPS = """\
step : {"pa1", "pa", "pa2", "smooth", "logistic", "ramp", "rescaled"}
        The step rule, i.e. the loss: hinge (pa1, the paper's), hard margin (pa, ignores C), squared hinge (pa2), smooth
        hinge, logistic, and two robust ones: ramp, which takes no step on a triplet whose loss reaches its level, and
        the rescaled hinge, whose steps fade as the loss grows.
    step_params : dict, optional
        Constants of the rule: smooth {"gamma": .5}, ramp {"level": 2}, rescaled {"eta": .5, "beta": 1/(1-exp(-eta))}.
    margin : float
        The 1 of the hinge, in scaled units. Margin m from the start I with C is margin 1 from I/m with C/m: a larger
        margin gives the data more say against the identity.
    forget : float in [0, 1)
        Before each triplet, the parameters go this share of their way back to the start, so that what was learnt
        1 / forget triplets ago has faded: for streams that drift (docs/streams.md). Needs psd "never" or "end".
"""

MATRICES = """\
    psd : {"never", "end", "step", "exact"} or int
        When U and the L_c are made positive semidefinite: never; at read-out only (learning goes on from the raw
        state); after each step, by one eigenpair; by exact constrained steps; or every n triplets.
    project : {"auto", "components", "effective"}
        What psd="end" makes p.s.d.: the components U and L_c, as the paper does, or the metrics M_c themselves, which
        is all that is needed and loses less (on faces with 44 rows a class .964 against .929). "auto" is "effective"
        once labels have formed triplets, "components" where only given triplets were learnt.
    scale : "auto" or None
        "auto" divides X by one number, so that what the first triplets compare has a typical size (mean squared
        distance of their pairs 2, for a similarity mean squared norm of their points 64): C and margin suit any units.
    average : "auto", True or False
        Read out a running average of the iterates instead of the last one ("auto": not where a single pass of given
        triplets is learnt). One iterate every 1,024 triplets enters it, so that shorter streams read out the last one.
        `shared_` and `local_` are always the last iterates.
    init : "identity" or (d, d) array in the units of X
        Where U and every L_c start.
"""

TRIPLETS = """\
    unlabeled : label, optional
        The label that marks rows without one, e.g. -1: never a class, never a voter, and learnt from as `semi` says.
    semi : {"neighbours", "self", "both", "none"}
        What rows marked `unlabeled` teach: that near rows are nearer than far ones, to the shared part alone
        ("neighbours"); or whatever rows of the class that their nearest labelled rows agree on teach ("self"). Such
        rows also vote in a MetricKNeighborsClassifier, unless "none".
    semi_params : dict, optional
        {"share": .8, "quantile": .9}, the gate of agreement; {"weight": 1, "neighbour_weight": .3}, triplet weights.
    n_targets, n_impostors : int
        Triplets from labels: nearest rows of the anchor's class, and at most so many nearest rows of other classes.
    impostor_margin : float
        How much farther than the farthest target an impostor may be, in units of the mean squared distance.
    n_epochs : int
        Passes of `fit` over the triplets.
    remine : bool
        Mine the triplets again before each further pass, under the shared metric as it is then.
    early_stopping, validation_fraction : bool, float
        Keep this fraction of the anchors back and stop when their triplets are no longer ranked better.
    reservoir_size : int
        Rows of each class that `partial_fit` remembers, to form triplets with.
    memory : {"auto", "sample", "window"}
        Which rows these are: a uniform sample of all that came, or the last ones. "auto" is "window" with forgetting.
    balanced : bool
        Draw the anchors of triplets from labels evenly across classes, however often each class comes. In `partial_fit`
        as many remembered rows as there are new ones become anchors again, evenly: wanted where classes come in turn.
    pair_threshold : float or "auto"
        The squared distance, or similarity, under the learnt metric that separates similar from dissimilar pairs.
        "auto": found from the first pairs, which should then be a fair sample of both kinds.
    block_size : int or "auto"
        Triplets learnt in one block. It changes the speed, never the result.
    random_state : int, RandomState or None
        Order of the anchors, reservoir.
    verbose : int
        Above 0, a progress bar on stderr.

    Attributes
    ----------
"""

ATTRIBUTES = """\
    shared_ : (d, d) array, the last iterate of U in scaled units.
    local_ : (n_classes, d, d) array, L of classes_[k] likewise; empty for a global learner.
"""

COUNTS = """\
    classes_, n_features_in_, scale_ : labels in order; number of features; the number X is divided by.
    n_triplets_, n_updates_, loss_ : triplets seen, steps taken, mean hinge loss of the last pass.
    recent_loss_, long_run_loss_, drift_ : (n_classes,) arrays, signals of drift: mean loss of the triplets of
        classes_[k] now and in the long run, each before its own step, and their ratio; NaN for a class without any.
    mined_ : dict, after `fit` from labels: how many anchors there were, how many of them were alone in their class or
        had no impostor within the margin and so gave no triplets, and the number of triplets.
"""

REGIONS = """\
regions : int, clusterer or function, optional
        Localise by where a row lies, not by its class, so that neither queries nor items need labels: a number of
        regions found by online k-means, an object with `predict`, or a function from rows to region numbers. `local_`
        then has one L a region.
    soft_regions : bool
        A row belongs to several regions, by its distances to their centres or by `predict_proba`.
"""
COMMON = STEPS + MATRICES + TRIPLETS + ATTRIBUTES + COUNTS

KERNEL_MATRICES = """\
    lam : float in [0, 1]
        Weight of the shared part. 1 learns one form for all classes, 0 each class by itself; see LOSL.
    normalize : bool
        Compare by k(x, z) / sqrt(k(x, x) k(z, z)). Use it for kernels whose k(x, x) varies, such as polynomials.
    budget : int or None
        Most rows of the support, at least 3; None has no limit. Learning, memory and prediction cost in proportion.
    when_full : {"keep", "forget"}
        What happens to a step that needs more rows than the budget allows. keep: it is not taken; steps among rows of
        the support go on. forget: the eighth of the support that took part in a step longest ago is dropped with all
        its steps, which follows a stream that drifts, but costs accuracy where nothing drifts.
    measure : {"similarity", "distance"}
        What is learnt in feature space: a similarity, or a squared distance (phi(p) - phi(q))^T M (phi(p) - phi(q)), of
        which `pair_score` is minus the root. A distance is never made p.s.d. and needs small steps.
    cache_size : float
        Megabytes of kernel values to keep while a call learns: m n^2 values for n rows and m kernels. If they are more,
        values are computed again for each block, which is slower. Search keeps transformed items within the same limit.
    psd, project : "never", "auto"
        Without effect: there is no matrix to project, and psd takes no other word.
    scale : "auto" or None
        "auto" divides X by one number, so that rows of the first triplets have a mean squared distance of d, the number
        of features: scikit-learn's default gamma = 1/d then gives typical rows the RBF value exp(-1), in any units.
        Kernel values are further multiplied by `gain_`, so that k(x, x) has mean 64 (squared distances: mean 2), as
        OASIS scales its rows. None takes X and the kernel as they are.
    average : "auto", True or False
        Read out a running average of the iterates instead of the last one ("auto": not where a single pass of given
        triplets is learnt). One iterate every 1,024 triplets enters it, so that shorter streams read out the last one.
        `shared_` and `local_` are always the last iterates.
    init : "identity" or "zero"
        Where U and every L_c start: scores start as k(p, q), or as 0.
"""

KERNEL_ATTRIBUTES = """\
    support_ : (n_support, d) rows that steps touched; row numbers if the kernel is precomputed.
    shared_ : (n_support, n_support) array: U less its start is the sum of shared_[i, j] phi(x_i) phi(x_j)^T over the
        support, phi of the scaled kernel; the last iterate. One such array a kernel for OMKS.
    local_ : (n_classes, ...) arrays, L of classes_[k] likewise.
    gain_ : what kernel values are multiplied by.
"""

KERNEL_COMMON = STEPS + KERNEL_MATRICES + TRIPLETS + KERNEL_ATTRIBUTES + COUNTS
