//! The rows about volumes that are written as the kubelet writes them, for either order of links.

use tlsidecar::demo::volume::Order;

use super::case::Op::{Run, See, Start, Swap, Wait};
use super::case::Sight::{Refuses, SameWatches};
use super::case::{Case, Extent, case, keeps, serves};

/// Rows whose volume is written in this order.
pub(super) fn volumes(order: Order) -> Vec<Case> {
    let swap = |number| Swap(order, Extent::Whole, "c", number);
    let keeping_old = |number| Swap(order, Extent::KeepingOld, "c", number);
    let mut rows = vec![
        case(
            "a swapped volume is followed with a constant number of watches",
            [
                swap(1),
                Start,
                serves(1),
                See(SameWatches),
                swap(2),
                serves(2),
                See(SameWatches),
                swap(3),
                serves(3),
            ]
            .into_iter()
            .chain([See(SameWatches), swap(4), serves(4), See(SameWatches)])
            .collect::<Vec<_>>(),
        ),
        case(
            "an old directory of a volume that is removed late is no change",
            [swap(1), Run("readlink c/..data > first"), Start, serves(1), keeping_old(2), serves(2)]
                .into_iter()
                .chain([Run("rm -r c/$(cat first)"), keeps(2), swap(3), serves(3)])
                .collect::<Vec<_>>(),
        ),
        case(
            "an empty volume is waited for",
            [Run("mkdir c"), Start, See(Refuses), swap(1), serves(1), swap(2), serves(2)],
        ),
        case(
            "a volume whose key vanishes keeps the old pair until it is whole",
            [
                swap(1),
                Start,
                serves(1),
                Swap(order, Extent::ChainAlone, "c", 2),
                keeps(1),
                swap(3),
                serves(3),
            ],
        ),
        case(
            "a volume rolled back to its first directory is followed",
            [swap(1), Run("readlink c/..data > first"), Start, serves(1), keeping_old(2), serves(2)]
                .into_iter()
                .chain([Run("ln -s $(cat first) c/..data_tmp; mv -T c/..data_tmp c/..data"), serves(1)])
                .collect::<Vec<_>>(),
        ),
    ];
    rows.extend(odd_volumes(order));
    rows
}

fn odd_volumes(order: Order) -> Vec<Case> {
    let swap = |number| Swap(order, Extent::Whole, "c", number);
    let nested = |number| Swap(order, Extent::Nested, "c", number);
    vec![
        case(
            "files in a folder of a volume are followed",
            [nested(1), Start, serves(1), nested(2), serves(2), nested(3), serves(3)],
        )
        .at("c/a/tls.crt", "c/a/tls.key"),
        case(
            "two volumes of which each has half the pair are followed",
            [
                Swap(order, Extent::ChainAlone, "c", 1),
                Swap(order, Extent::KeyAlone, "k", 1),
                Start,
                serves(1),
                Swap(order, Extent::KeyAlone, "k", 2),
                keeps(1),
            ]
            .into_iter()
            .chain([
                Swap(order, Extent::ChainAlone, "c", 2),
                serves(2),
                Swap(order, Extent::ChainAlone, "c", 3),
                Wait(100),
            ])
            .chain([Swap(order, Extent::KeyAlone, "k", 3), serves(3)])
            .collect::<Vec<_>>(),
        )
        .at("c/tls.crt", "k/tls.key"),
        case(
            "what a crashed write left in a volume is no change",
            [swap(1), Start, serves(1), Swap(order, Extent::Crashed, "c", 8), keeps(1), swap(2), serves(2)],
        ),
        case(
            "a volume that is torn down and set up again is followed",
            [swap(1), Start, serves(1), Run("rm -r c"), keeps(1), swap(2), serves(2), swap(3), serves(3)],
        ),
        case(
            "a volume reached through links is followed",
            [
                Swap(order, Extent::Whole, "csi/v", 1),
                Run("mkdir d; ln -s ../csi/v d/x; ln -s d/x c"),
                Start,
                serves(1),
            ]
            .into_iter()
            .chain([
                Swap(order, Extent::Whole, "csi/v", 2),
                serves(2),
                Swap(order, Extent::Whole, "csi/v", 3),
                serves(3),
            ])
            .collect::<Vec<_>>(),
        ),
        case(
            "a swap of equal content is no change",
            [swap(1), Start, serves(1), swap(1), swap(1), keeps(1), swap(2), serves(2)],
        ),
    ]
}
