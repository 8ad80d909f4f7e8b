import PushCore

/// Throws of dice from a seed, the same in every run.
struct Dice: RandomNumberGenerator {
    private var generator: SeededGenerator

    init(seed: Int) { generator = SeededGenerator(seed: UInt64(seed) &* 0xD129_0D3B_5A69_C1F5 &+ 0x9E37_79B9) }

    mutating func next() -> UInt64 { generator.next() }

    mutating func roll(_ range: ClosedRange<Int>) -> Int { .random(in: range, using: &self) }

    /// True once in `times` on average.
    mutating func happens(onceIn times: Int) -> Bool { roll(1...times) == 1 }

    /// One of the values, of which there must be some.
    mutating func pick<Value>(_ values: [Value]) -> Value { values[roll(0...values.count - 1)] }

    mutating func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8(roll(0...255)) } }

    /// How bytes are written.
    enum Cut: CaseIterable { case nowhere, somewhere, everywhere }

    /// The bytes in pieces: whole, cut at random places, or one by one.
    mutating func cut(_ bytes: [UInt8], _ wish: Cut? = nil) -> [[UInt8]] {
        switch wish ?? pick(Cut.allCases) {
        case .everywhere where bytes.count < 4000: return bytes.map { [$0] }
        case .somewhere:
            var (pieces, rest): ([[UInt8]], ArraySlice<UInt8>) = ([], bytes[...])
            while !rest.isEmpty {
                let count = roll(1...max(1, bytes.count / 4))
                pieces.append(Array(rest.prefix(count)))
                rest = rest.dropFirst(count)
            }
            return pieces
        default: return [bytes]
        }
    }

    /// The bytes with some bits turned over, none before `start`.
    mutating func flip(_ bytes: [UInt8], from start: Int) -> [UInt8] {
        var spoilt = bytes
        guard start < bytes.count else { return bytes }
        for _ in 0..<roll(1...8) { spoilt[roll(start...bytes.count - 1)] ^= UInt8(1 << roll(0...7)) }
        return spoilt
    }
}
