/// Makes a script that fails as short and simple as it can.
///
/// It works on the numbers: it deletes runs of records, long ones first, then makes the numbers of those that are left smaller. A candidate
/// is kept when it fails too, for whatever reason: the shortest failure of a faulty program is worth most, and is often the same.
struct Shrinker {
    /// Whether a script fails.
    let fails: (Script) -> Bool
    /// How many candidates are tried at most.
    var budget = 400

    /// The shortest script that was found.
    mutating func shrink(_ script: Script) -> Script {
        var best = script
        var length = max(1, best.records.count / 2)
        while length >= 1, budget > 0 {
            var place = 1
            var hasShrunk = false
            while place < best.records.count, budget > 0 {
                var candidate = best
                candidate.records.removeSubrange(place..<min(best.records.count, place + length))
                if tries(candidate) {
                    best = candidate
                    hasShrunk = true
                } else {
                    place += length
                }
            }
            if !hasShrunk || length > 1 { length /= 2 }
        }
        for record in best.records.indices {
            for place in best.records[record].indices {
                for smaller in [0, 1, best.records[record][place] / 2] where smaller < best.records[record][place] {
                    guard budget > 0 else { return best }
                    var candidate = best
                    candidate.records[record][place] = smaller
                    guard tries(candidate) else { continue }
                    best = candidate
                    break
                }
            }
        }
        return best
    }

    private mutating func tries(_ candidate: Script) -> Bool {
        budget -= 1
        return fails(candidate)
    }
}
