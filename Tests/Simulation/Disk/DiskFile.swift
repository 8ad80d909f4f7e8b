import ChaparCore

/// A file: what reads see, what a power failure surely leaves, and what was done in between.
final class DiskFile {
    /// A change since the last sync; the bytes of a write stand in the file's `written`.
    struct Change {
        var kind: DiskCall.Kind
        var offset: Int
        var count: Int
        var start = 0
    }

    /// Which file of the disk's this is, in the order in which they were made.
    let number: Int
    let name: String
    /// The bytes that reads see.
    let current = FileBytes()
    /// The bytes that a power failure leaves if it drops all that was not synced.
    let durable = FileBytes()
    /// The changes since the last sync that succeeded.
    private(set) var changes: [Change] = []
    private let written = FileBytes()

    /// How many names the file has, 0 or 1, and how many handles; without either its bytes are free.
    var isLinked = true
    var handles = 0
    var locks = FileLocks()
    var memory: SharedMemory?

    init(number: Int, name: String) {
        self.number = number
        self.name = name
    }

    /// SQLite's own temporary files have no name, and no crash leaves them.
    var isTemporary: Bool { name.isEmpty }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        guard !bytes.isEmpty else { return }
        current.write(bytes, at: offset)
        guard !isTemporary else { return }
        changes.append(Change(kind: .write, offset: offset, count: bytes.count, start: written.count))
        written.write(bytes, at: written.count)
    }

    func truncate(to length: Int) {
        current.resize(to: length)
        if !isTemporary { changes.append(Change(kind: .truncate, offset: length, count: 0)) }
    }

    func sync() {
        for change in changes { apply(change, .kept) }
        forgetChanges(changes.count)
    }

    /// Lets the first changes come to what was decided; they are neither durable nor to be synced any more.
    func settle(_ fates: [ChangeFate]) {
        for (change, fate) in zip(changes, fates) { apply(change, fate) }
        forgetChanges(fates.count)
    }

    /// After a power failure there is nothing but what is durable.
    func revert() { current.copy(durable) }

    private func forgetChanges(_ count: Int) {
        changes.removeFirst(min(count, changes.count))
        if changes.isEmpty { written.resize(to: 0) }
    }

    private func apply(_ change: Change, _ fate: ChangeFate) {
        if change.kind == .truncate {
            if fate == .kept { durable.resize(to: change.offset) }
            return
        }
        let sector = UnsyncedChange.sectorBytes
        let first = change.offset / sector
        let end = change.offset + change.count
        let after = (end + sector - 1) / sector
        switch fate {
        case .kept: keep(change, change.offset, end)
        case .dropped: break
        case .prefix(let sectors): keep(change, change.offset, min(end, (first + sectors) * sector))
        case .suffix(let sectors): keep(change, max(change.offset, (after - sectors) * sector), end)
        case .single(let index):
            keep(change, max(change.offset, (first + index) * sector), min(end, (first + index + 1) * sector))
        case .enlarged: if end > durable.count { durable.resize(to: end) }
        case .garbled(let seed):
            var noise = SeededGenerator(seed: seed)
            let words = (0..<(change.count + 7) / 8).map { _ in noise.next() }
            words.withUnsafeBytes { spoil(change, with: UnsafeRawBufferPointer(rebasing: $0.prefix(change.count))) }
        }
    }

    /// Leaves noise of a write, but where a sector got the bytes that it has: it is written whole or not at all.
    private func spoil(_ change: Change, with noise: UnsafeRawBufferPointer) {
        let sector = UnsyncedChange.sectorBytes
        var position = 0
        while position < change.count {
            let end = min(change.count, ((change.offset + position) / sector + 1) * sector - change.offset)
            let from = change.offset + position
            let isSame =
                change.offset + end <= durable.count
                && durable.slice(from, end - position)
                    .elementsEqual(written.slice(change.start + position, end - position))
            if !isSame { durable.write(UnsafeRawBufferPointer(rebasing: noise[position..<end]), at: from) }
            position = end
        }
    }

    private func keep(_ change: Change, _ from: Int, _ to: Int) {
        guard from < to else { return }
        durable.write(written.slice(change.start + from - change.offset, to - from), at: from)
    }
}
