/// The index of a large object's fields by name, for ``JSONObject``.
///
/// It is a table with open addressing, at most half full, of the members' positions and 32 bits of their names' hashes.
/// Swift seeds those in each process, so that colliding names cannot be chosen. It is made for as many as 900,000
/// names: members that are indexed together are inserted in the table's order, since access to distant memory costs
/// more than everything else.
struct JSONNameIndex: Sendable {
    typealias Member = (name: String, value: JSONValue)

    /// The slots: a hash in the upper half, a position plus one in the lower; 0 is free.
    private var slots: [UInt64] = []
    /// The number of low bits of a hash that are shifted out to get its slot.
    private var shift: UInt32 = 0

    /// Whether nothing is indexed.
    var isEmpty: Bool { slots.isEmpty }

    /// Indexes all members.
    ///
    /// Returns the position of a member whose name has already occurred; nil when there is none.
    mutating func build(_ members: [Member]) -> Int? {
        let bits = UInt32(clamping: max(6, Int.bitWidth - (2 * members.count).leadingZeroBitCount))
        shift = 32 - bits
        slots = Array(repeating: 0, count: 1 << Int(bits))
        var repeated: Int?
        for entry in Self.entries(of: members, sorted: bits > 14) {
            if let place = insert(entry, members) { repeated = min(repeated ?? place, place) }
        }
        return repeated
    }

    /// Adds the last of the members, whose name is new.
    mutating func addLast(of members: [Member]) {
        guard members.count * 2 <= slots.count else {
            _ = build(members)
            return
        }
        guard let last = members.last else { return }
        _ = insert(UInt64(truncatingIfNeeded: Self.hash(last.name)) << 32 | UInt64(clamping: members.count), members)
    }

    /// Returns the position of the member with a name; nil when there is none.
    func place(of name: String, in members: [Member]) -> Int? {
        let hash = Self.hash(name)
        var slot = Int(hash >> shift)
        while slots[slot] != 0 {
            if UInt32(truncatingIfNeeded: slots[slot] >> 32) == hash {
                let place = Int(slots[slot] & 0xFFFF_FFFF) - 1
                if members[place].name == name { return place }
            }
            slot = (slot + 1) & (slots.count - 1)
        }
        return nil
    }

    /// Puts an entry into the first free slot; returns its position instead when its name is already there.
    private mutating func insert(_ entry: UInt64, _ members: [Member]) -> Int? {
        let hash = UInt32(truncatingIfNeeded: entry >> 32)
        let place = Int(entry & 0xFFFF_FFFF) - 1
        var slot = Int(hash >> shift)
        while slots[slot] != 0 {
            if UInt32(truncatingIfNeeded: slots[slot] >> 32) == hash {
                let other = Int(slots[slot] & 0xFFFF_FFFF) - 1
                if members[other].name == members[place].name { return max(place, other) }
            }
            slot = (slot + 1) & (slots.count - 1)
        }
        slots[slot] = entry
        return nil
    }

    /// Returns the entries for the slots, by position, or by the first bits of the hashes and then by position.
    private static func entries(of members: [Member], sorted: Bool) -> [UInt64] {
        let bits = 10
        var starts = [Int](repeating: 0, count: 1 << bits)
        var entries: [UInt64] = []
        entries.reserveCapacity(members.count)
        for (place, member) in members.enumerated() {
            let entry = UInt64(truncatingIfNeeded: hash(member.name)) << 32 | UInt64(clamping: place + 1)
            entries.append(entry)
            starts[Int(entry >> (64 - bits))] += 1
        }
        guard sorted else { return entries }
        var sum = 0
        for part in starts.indices { (starts[part], sum) = (sum, sum + starts[part]) }
        return Array(unsafeUninitializedCapacity: entries.count) { sorted, count in
            for entry in entries {
                let part = Int(entry >> (64 - bits))
                sorted.initializeElement(at: starts[part], to: entry)
                starts[part] += 1
            }
            count = entries.count
        }
    }

    private static func hash(_ name: String) -> UInt32 { UInt32(truncatingIfNeeded: name.hashValue) }
}
