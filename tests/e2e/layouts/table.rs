//! The rows: layouts of certificate files as people and programs make them, and what happens to them.

use tlsidecar::demo::volume::Order;

use super::case::Op::{Chain, Churn, Exchange, Flood, Freeze, Key, Put, Run, See, Start, Swap, Thaw, Wait};
use super::case::Sight::{Refuses, SameWatches, Warnings};
use super::case::{Case, Extent, Manner, Needs, Op, case, keeps, put, serves};
use super::volumes;

/// All rows.
pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (order, told) in [(Order::LinksLast, "links made last"), (Order::LinksFirst, "links made first")] {
        all.extend(
            volumes::volumes(order)
                .into_iter()
                .map(|row| Case { name: format!("{}, {told}", row.name), ..row }),
        );
    }
    for family in [absences, copies, renames, links, directories, oddities, noise, mounts, permissions] {
        all.extend(family());
    }
    all
}

/// Plain files of generation 1 in `c`, generation 2 prepared in `n`, the sidecar started; then `steps`.
fn with_next(name: &str, steps: &[Op]) -> Case {
    let start = [Run("mkdir c n"), put("c", 1), put("n", 2), Start, serves(1)];
    case(name, [&start, steps].concat())
}

/// Plain files of generation 1 in `c`, the sidecar started; then `steps`.
fn plain(name: &str, steps: &[Op]) -> Case {
    let start = [Run("mkdir c"), put("c", 1), Start, serves(1)];
    case(name, [&start, steps].concat())
}

fn absences() -> Vec<Case> {
    vec![
        case(
            "a missing directory is waited for",
            [Start, See(Refuses), Run("mkdir c"), put("c", 1), serves(1)],
        ),
        case(
            "missing directories at three levels are waited for",
            [Start, See(Refuses), Run("mkdir -p a/b/c"), put("a/b/c", 1), serves(1)],
        )
        .at("a/b/c/tls.crt", "a/b/c/tls.key"),
        plain("removed files are waited for", &[Run("rm c/*"), Wait(200), keeps(1), put("c", 2), serves(2)]),
        case(
            "a link to nowhere is waited for",
            [Run("ln -s nowhere c"), Start, See(Refuses), Run("mkdir nowhere"), put("nowhere", 1), serves(1)],
        ),
    ]
}

fn copies() -> Vec<Case> {
    let rsync = Needs::Tool("rsync");
    vec![
        plain("a slow writer is waited for", &[Put(Manner::Slowly, "c", 2), serves(2)]),
        with_next("cp is followed", &[Run("cp n/* c/"), serves(2)]),
        with_next("cp that removes first is followed", &[Run("cp --remove-destination n/* c/"), serves(2)]),
        with_next("install is followed", &[Run("install -m600 n/tls.crt n/tls.key c/"), serves(2)]),
        with_next("rsync is followed", &[Run("rsync -aI n/ c/"), serves(2)]).needing(rsync),
        with_next("rsync in place is followed", &[Run("rsync -aI --inplace n/ c/"), serves(2)])
            .needing(rsync),
        with_next(
            "rsync with delayed updates is followed",
            &[Run("rsync -aI --delay-updates n/ c/"), serves(2)],
        )
        .needing(rsync),
        with_next("tar is followed", &[Run("tar -C n -c tls.crt tls.key | tar -C c -x"), serves(2)]),
        case(
            "a copy with equal size and time is followed",
            [
                Run("mkdir c n"),
                Put(Manner::Padded, "c", 1),
                Put(Manner::Padded, "n", 2),
                Run("touch -d @1700000000 c/* n/*"),
            ]
            .into_iter()
            .chain([Start, serves(1), Run("cp -p n/* c/"), serves(2)])
            .collect::<Vec<_>>(),
        ),
        plain("a writer that never closes is followed", &[Put(Manner::Holding, "c", 2), serves(2)]),
        case(
            "a store through a mapping is followed when it is closed",
            [
                Run("mkdir c"),
                Put(Manner::Padded, "c", 1),
                Start,
                serves(1),
                Put(Manner::Mapped, "c", 2),
                serves(2),
            ],
        ),
        plain(
            "files written unnamed are followed",
            &[Run("rm c/*"), Put(Manner::Unnamed, "c", 2), serves(2)],
        ),
        case(
            "a first chain written in parts is not served in part",
            [Run("mkdir c"), Start, See(Refuses), Put(Manner::InParts, "c", 1), serves(1)],
        ),
        plain(
            "a chain written in parts is never served in part",
            &(2..=11)
                .flat_map(|number| [Put(Manner::InParts, "c", number), serves(number)])
                .collect::<Vec<_>>(),
        ),
    ]
}

fn renames() -> Vec<Case> {
    vec![
        with_next(
            "files renamed one after the other are served together",
            &[Run("mv n/tls.key c/tls.key"), Wait(150), Run("mv n/tls.crt c/tls.crt"), serves(2)],
        ),
        with_next("files renamed at once are followed", &[Run("mv n/tls.key n/tls.crt c/"), serves(2)]),
        with_next(
            "files hard linked into place are followed",
            &[Run("ln -f n/tls.crt c/tls.crt; ln -f n/tls.key c/tls.key"), serves(2)],
        ),
        with_next(
            "a write through another hard link is followed",
            &[Run("mkdir o; ln c/tls.crt o/tls.crt; ln c/tls.key o/tls.key"), put("o", 3), serves(3)],
        ),
        with_next(
            "files that change places are followed",
            &[Exchange("c/tls.key", "n/tls.key"), Exchange("c/tls.crt", "n/tls.crt"), serves(2)],
        ),
    ]
}

fn links() -> Vec<Case> {
    let releases = [Run("mkdir -p rel/1 rel/2; ln -s rel/1 current"), put("rel/1", 1), put("rel/2", 2)];
    let flips = [
        [Start, serves(1), See(SameWatches), Run("ln -s rel/2 n; mv -T n current"), serves(2)],
        [put("rel/2", 3), serves(3), Run("ln -sfn rel/1 current"), serves(1), See(SameWatches)],
    ];
    vec![
        case("a link to releases is followed", [releases.as_slice(), &flips.concat()].concat())
            .at("current/tls.crt", "current/tls.key"),
        case("links replaced as certbot does are followed", certbot()).at("live/x/tls.crt", "live/x/tls.key"),
        plain(
            "a directory that became a link to nowhere is waited for",
            &[Run("rm -r c; ln -s nowhere c"), keeps(1), Run("mkdir nowhere"), put("nowhere", 2), serves(2)],
        ),
        plain(
            "links in a circle are waited for",
            &[
                Run("rm -r c; ln -sfT c2 c; ln -sfT c c2"),
                keeps(1),
                Run("rm c2; mkdir c2"),
                put("c2", 2),
                serves(2),
            ],
        ),
        case(
            "a key behind a link of its own is followed",
            [Run("mkdir c k k2; ln -s k kk"), Chain("c/tls.crt", 1), Key("k/tls.key", 1), Start, serves(1)]
                .into_iter()
                .chain([Key("k2/tls.key", 2), Run("ln -sfT k2 kk"), Chain("c/tls.crt", 2), serves(2)])
                .collect::<Vec<_>>(),
        )
        .at("c/tls.crt", "kk/tls.key"),
        case("each link of a chain is followed", link_chain()),
    ]
}

fn certbot() -> Vec<Op> {
    vec![
        Run("mkdir -p live/x archive/x"),
        Chain("archive/x/cert1.pem", 1),
        Key("archive/x/key1.pem", 1),
        Run("ln -s ../../archive/x/cert1.pem live/x/tls.crt; ln -s ../../archive/x/key1.pem live/x/tls.key"),
        Start,
        serves(1),
        Chain("archive/x/cert2.pem", 2),
        Key("archive/x/key2.pem", 2),
        Run("cd live/x; rm tls.key; ln -s ../../archive/x/key2.pem tls.key"),
        Run("cd live/x; rm tls.crt; ln -s ../../archive/x/cert2.pem tls.crt"),
        serves(2),
        Chain("archive/x/cert2.pem", 3),
        Key("archive/x/key2.pem", 3),
        serves(3),
    ]
}

/// `c` leads through two more links to a directory; each of the three is pointed elsewhere once.
fn link_chain() -> Vec<Op> {
    vec![
        Run("mkdir l1 l2 g1 g2 g3 g4; ln -s ../g1 l2/b; ln -s ../l2/b l1/a; ln -s l1/a c"),
        put("g1", 1),
        put("g2", 2),
        put("g3", 3),
        put("g4", 4),
        Start,
        serves(1),
        Run("ln -sfT ../g2 l2/b"),
        serves(2),
        Run("ln -sfT ../g3 l1/a"),
        serves(3),
        Run("ln -sfT g4 c"),
        serves(4),
    ]
}

fn directories() -> Vec<Case> {
    let deep = |name: &str, steps: &[Op]| {
        let start = [Run("mkdir -p a/b/c"), put("a/b/c", 1), Start, serves(1)];
        case(name, [&start, steps].concat()).at("a/b/c/tls.crt", "a/b/c/tls.key")
    };
    vec![
        with_next(
            "a directory renamed into place is followed, and the old one no longer",
            &[
                See(SameWatches),
                Run("mv c o; mv n c"),
                serves(2),
                put("c", 3),
                serves(3),
                put("o", 9),
                keeps(3),
                See(SameWatches),
            ],
        ),
        with_next(
            "directories that change places are followed",
            &[
                See(SameWatches),
                Exchange("c", "n"),
                serves(2),
                put("n", 8),
                keeps(2),
                put("c", 3),
                serves(3),
                See(SameWatches),
            ],
        ),
        deep(
            "a tree whose root was renamed away and built again is followed",
            &[
                Run("mv a a.old; mkdir -p a/b/c"),
                put("a/b/c", 2),
                serves(2),
                put("a/b/c", 3),
                put("a.old/b/c", 9),
                serves(3),
                keeps(3),
            ],
        ),
        deep(
            "a tree that was removed is waited for",
            &[Run("rm -r a"), keeps(1), Run("mkdir -p a/b/c"), put("a/b/c", 2), serves(2)],
        ),
        plain(
            "a directory removed and made again at once is followed",
            &[
                Run("rm -r c; mkdir c"),
                put("c", 2),
                serves(2),
                Run("rm -r c; mkdir c"),
                put("c", 3),
                serves(3),
            ],
        ),
    ]
}

fn oddities() -> Vec<Case> {
    vec![
        plain(
            "a pipe or a directory in the place of the certificate is waited out",
            &[
                Run("rm c/tls.crt; mkfifo c/tls.crt"),
                keeps(1),
                Run("rm c/tls.crt; mkdir c/tls.crt"),
                keeps(1),
                Run("rmdir c/tls.crt"),
                put("c", 2),
                serves(2),
            ],
        ),
        plain(
            "a key that never matches is told seldom and keeps the old pair",
            &[Chain("c/tls.crt", 2), Key("c/tls.key", 9), Wait(3000), keeps(1), See(Warnings(2))],
        ),
        plain(
            "a bad pair that turns into the old good one is no change",
            &[Chain("c/tls.crt", 2), keeps(1), put("c", 1), keeps(1), put("c", 3), serves(3)],
        ),
    ]
}

fn noise() -> Vec<Case> {
    const TOUCHED: &str =
        "for i in 1 2 3 4 5; do touch c/*; chmod 640 c/*; chown $(id -u):$(id -g) c/*; done";
    vec![
        plain(
            "touched and re-permitted files are no change",
            &[Run(TOUCHED), keeps(1), put("c", 2), serves(2)],
        ),
        case(
            "a flood of other names beside the directory does not hide a change",
            [Run("mkdir -p p/c"), put("p/c", 1), Start, serves(1), Flood("p"), put("p/c", 2), serves(2)],
        )
        .at("p/c/tls.crt", "p/c/tls.key"),
        plain(
            "more events than the kernel keeps do not hide a change",
            &(2..=4)
                .flat_map(|number| {
                    // Two events a name; the kernel keeps 16,384.
                    [
                        Freeze,
                        Churn("c", 12_000),
                        Run("rm -r c; mkdir c"),
                        put("c", number),
                        Thaw,
                        serves(number),
                    ]
                })
                .collect::<Vec<_>>(),
        ),
        plain(
            "forty thousand other names do not hide a change",
            &[Churn("c", 40_000), put("c", 2), serves(2)],
        ),
    ]
}

/// Rows whose sidecar runs as nobody; the folder of the case is open to it, `p` only to be passed through.
fn permissions() -> Vec<Case> {
    let swap = |extent, number| Swap(Order::LinksLast, extent, "c", number);
    let rows = vec![
        case(
            "files whose permissions come after the swap are followed",
            [Run("chmod 755 ."), swap(Extent::Whole, 1), Start, serves(1), swap(Extent::Closed, 2), keeps(1)]
                .into_iter()
                .chain([Run("chmod 644 c/..data/*"), serves(2)])
                .collect::<Vec<_>>(),
        ),
        case(
            "a directory made again below one that may not be listed is followed",
            [Run("chmod 755 .; mkdir p; chmod 711 p; mkdir p/c"), put("p/c", 1), Start, serves(1)]
                .into_iter()
                .chain([Run("mv p/c p/o; mkdir p/c"), put("p/c", 2), serves(2)])
                .collect::<Vec<_>>(),
        )
        .at("p/c/tls.crt", "p/c/tls.key"),
    ];
    rows.into_iter().map(|row| row.needing(Needs::Nobody)).collect()
}

fn mounts() -> Vec<Case> {
    let bound = [
        Run("mkdir h c; touch c/tls.crt c/tls.key"),
        put("h", 1),
        Run("mount --bind h/tls.crt c/tls.crt; mount --bind h/tls.key c/tls.key"),
        Start,
        serves(1),
    ];
    let rows = vec![
        case(
            "bind-mounted files written in place are followed",
            [&bound[..], &[put("h", 2), serves(2)]].concat(),
        ),
        case(
            "bind-mounted files that are replaced behind the mount keep the old pair, with a warning",
            [
                &bound[..],
                &[Run("mkdir n"), put("n", 2), Run("mv n/tls.crt n/tls.key h/"), keeps(1), See(Warnings(2))],
            ]
            .concat(),
        ),
        plain(
            "a file system mounted over the directory is followed, and so is its end",
            &[
                Run("mount -t tmpfs t c"),
                put("c", 2),
                serves(2),
                put("c", 3),
                serves(3),
                Run("umount c"),
                serves(1),
            ],
        ),
        case(
            "a file system that goes away under a link is followed by what was below",
            [Run("mkdir m; mount -t tmpfs t m; mkdir m/c; ln -s m/c c"), put("c", 1), Start, serves(1)]
                .into_iter()
                .chain([Run("umount m; mkdir m/c"), put("m/c", 5), serves(5)])
                .collect::<Vec<_>>(),
        ),
    ];
    rows.into_iter().map(|row| row.needing(Needs::Mounts)).collect()
}
