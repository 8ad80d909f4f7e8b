import Glibc

/// The wal-index: memory that the connections to one database share, and their locks on it.
///
/// The memory stays as long as a handle has it: after a simulated crash a dead connection may still look at its own.
final class SharedMemory {
    /// The slots that a handle holds, a bit each.
    private struct Slots {
        var shared: UInt32 = 0
        var exclusive: UInt32 = 0
    }

    private var regions: [UnsafeMutableRawPointer] = []
    private var held: [Int: Slots] = [:]

    deinit { for region in regions { free(region) } }

    /// Whether no handle is attached.
    var isUnused: Bool { held.isEmpty }

    func attach(_ handle: Int) { if held[handle] == nil { held[handle] = Slots() } }
    func detach(_ handle: Int) { held[handle] = nil }

    /// A region of so many bytes, zeros at first; nil when it is not there and not to be made.
    func region(_ index: Int, bytes: Int, extend: Bool) -> UnsafeMutableRawPointer? {
        while regions.count <= index {
            guard extend, let region = calloc(1, bytes) else { return nil }
            regions.append(region)
        }
        return regions[index]
    }

    /// Takes or gives up slots; false when another handle is in the way.
    func lock(_ handle: Int, slots mask: UInt32, exclusively: Bool) -> Bool {
        var mine = held[handle] ?? Slots()
        for (other, slots) in held where other != handle {
            if slots.exclusive & mask != 0 || (exclusively && slots.shared & mask != 0) { return false }
        }
        if exclusively { mine.exclusive |= mask } else { mine.shared |= mask }
        held[handle] = mine
        return true
    }

    func unlock(_ handle: Int, slots mask: UInt32) {
        held[handle]?.shared &= ~mask
        held[handle]?.exclusive &= ~mask
    }
}
