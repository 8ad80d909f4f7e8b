import NIOCore
import ChaparTesting

/// The script of a server whose first connections are broken in one way, and which remembers what it wrote.
///
/// Sendable without proof by the compiler: everything runs on the server's one event loop.
final class BrokenHTTP2Peer: @unchecked Sendable {
    /// Where a connection is.
    private struct State {
        var numbers: [Int32: (number: Int, place: Int)] = [:]
        var pending: [Int32] = []
        var threshold = 1
        var isAsked = false
        var isWriting = false
        var isSpent = false
        var isNonsense = false
        /// Nothing that is written from now on arrives as such.
        var isMute = false
        var lastStream = Int32.max
        var begun: Set<Int32> = []
    }

    let kind: HTTP2Nonsense
    private var dice: Dice
    private let limit: Int
    private let brokenConnections: Int
    private var states: [Int: State] = [:]
    private(set) var isBroken = true
    private(set) var attempts = Attempts()
    /// How often the peer has been broken.
    private(set) var failures = 0

    init(_ kind: HTTP2Nonsense, seed: Int) {
        self.kind = kind
        dice = Dice(seed: seed)
        limit = dice.pick([1, 3, 10, 100, 100])
        brokenConnections = dice.roll(1...3)
    }

    func handle(_ connection: ServerConnection, _ event: ServerEvent) {
        switch event {
        case .opened: opened(connection)
        case .request(let id): requested(connection, id)
        default: break
        }
    }

    /// From now on the peer is a good one; broken connections end.
    func mend(_ connections: [ServerConnection]) {
        isBroken = false
        for connection in connections { close(connection) }
    }

    private func close(_ connection: ServerConnection) {
        states[connection.number]?.isMute = true
        connection.close()
    }

    private func isBroken(_ connection: ServerConnection) -> Bool {
        isBroken && connection.number <= brokenConnections
    }

    private func opened(_ connection: ServerConnection) {
        var state = State()
        state.threshold = dice.roll(1...min(limit, 20))
        states[connection.number] = state
        guard isBroken(connection), kind == .early else { return connection.settings([(3, UInt32(limit))]) }
        failures += 1
        (state.isNonsense, state.isMute) = (true, true)
        states[connection.number] = state
        var composer = HTTP2Composer(dice: dice, numbers: [:])
        let bytes = composer.early()
        dice = composer.dice
        write(dice.cut(bytes)[...], to: connection) { self.close($0) }
    }

    private func requested(_ connection: ServerConnection, _ id: Int32) {
        guard var state = states[connection.number], let number = Attempts.number(ofPath: connection.paths[id]) else {
            return
        }
        var attempt = Attempt(connection: connection.number)
        attempt.isTurnedAway = id > state.lastStream
        attempt.isObscure = state.isNonsense && (kind.isObscure || kind == .early)
        state.numbers[id] = (number, attempts.add(attempt, number: number))
        let isAnswered = !isBroken(connection) || state.isSpent || state.isMute
        if !isAnswered || state.isWriting { state.pending.append(id) }
        let isFirst = !state.isAsked
        state.isAsked = true
        states[connection.number] = state
        if isAnswered, !state.isWriting {
            if id <= state.lastStream { answerWell([id], on: connection) }
        } else if !state.isWriting, state.pending.count >= state.threshold {
            act(on: connection)
        } else if isFirst {
            connection.after(.milliseconds(20)) { connection in
                guard self.states[connection.number]?.isSpent == false else { return }
                self.act(on: connection)
            }
        }
    }

    private func answerWell(_ ids: [Int32], on connection: ServerConnection) {
        guard var state = states[connection.number], !state.isMute else { return }
        var composer = HTTP2Composer(dice: dice, numbers: state.numbers.mapValues(\.number))
        let pieces = ids.flatMap { composer.answer($0) }
        dice = composer.dice
        for piece in pieces { note(piece, &state) }
        states[connection.number] = state
        connection.send(pieces.flatMap(\.bytes))
    }

    /// Answers what is pending in the broken way.
    private func act(on connection: ServerConnection) {
        guard var state = states[connection.number], !state.pending.isEmpty, !state.isWriting else { return }
        failures += 1
        let cut = dice.pick(Dice.Cut.allCases)
        var composer = HTTP2Composer(dice: dice, numbers: state.numbers.mapValues(\.number))
        composer.splitsFields = cut != .everywhere
        var pieces = composer.compose(kind, state.pending)
        dice = composer.dice
        pieces = spoil(pieces)
        for piece in pieces { note(piece, &state) }
        if kind.isObscure {
            for (number, place) in state.numbers.values { attempts.change(number, place) { $0.isObscure = true } }
        }
        state.pending = []
        (state.isWriting, state.isSpent) = (true, true)
        states[connection.number] = state
        let chunks = dice.cut(pieces.flatMap(\.bytes), cut)
        write(chunks[...], to: connection) { self.finish($0) }
    }

    /// Spoils the bytes themselves, for the kinds that do.
    private func spoil(_ pieces: [Piece]) -> [Piece] {
        guard kind.rawValue < HTTP2Nonsense.early.rawValue else { return pieces }
        let bytes = pieces.flatMap(\.bytes)
        let place = dice.roll(0...bytes.count - 1)
        var kept: [Piece] = []
        var count = 0
        for piece in pieces {
            guard count + piece.bytes.count <= place else { break }
            kept.append(piece)
            count += piece.bytes.count
        }
        let rest: [UInt8]
        switch kind {
        case .flippedBits: rest = Array(dice.flip(bytes, from: count)[count...])
        case .wrongLength:
            rest = Array(dice.bytes(3)[..<3]) + bytes[min(count + 3, bytes.count)...]
        case .noise: rest = dice.bytes(dice.roll(9...2000))
        default:
            // What the cut piece would have said may be taken as said, when its last byte is not needed for that.
            kept.append(.nonsense([]))
            let cut = pieces[kept.count - 1]
            return kept + [Piece(bytes: Array(bytes[count..<place]), stream: cut.stream)]
        }
        return kept + [.nonsense(rest)]
    }

    private func note(_ piece: Piece, _ state: inout State) {
        let isCertain = !state.isNonsense
        let call = state.numbers[piece.stream]
        switch piece.meaning {
        case .plain: break
        case .begun(let status):
            state.begun.insert(piece.stream)
            if let call { attempts.change(call.number, call.place) { $0.statuses.insert(status) } }
        case .whole(let status):
            guard let call else { break }
            attempts.change(call.number, call.place) { if isCertain { $0.certain = $0.certain ?? status } }
        case .refusal:
            guard let call, !state.begun.contains(piece.stream) else { break }
            attempts.change(call.number, call.place) { $0.isTurnedAway = true }
        case .goAway(let last):
            state.lastStream = min(state.lastStream, last)
            for (id, call) in state.numbers where id > last && !state.begun.contains(id) {
                attempts.change(call.number, call.place) { $0.isTurnedAway = true }
            }
        case .nonsense: state.isNonsense = true
        }
    }

    private func write(
        _ chunks: ArraySlice<[UInt8]>,
        to connection: ServerConnection,
        _ done: @escaping (ServerConnection) -> Void
    ) {
        guard let chunk = chunks.first else { return done(connection) }
        connection.send(chunk)
        let rest = NIOLoopBound((chunks: chunks.dropFirst(), done: done), eventLoop: connection.loop)
        connection.loop.execute { self.write(rest.value.chunks, to: connection, rest.value.done) }
    }

    private func finish(_ connection: ServerConnection) {
        guard var state = states[connection.number] else { return }
        state.isWriting = false
        let late = state.pending.filter { $0 <= state.lastStream }
        state.pending = []
        states[connection.number] = state
        let isCut = [.cutInSilence, .cutWithoutGoodbye, .brokenTLS, .cut].contains(kind)
        if isCut { states[connection.number]?.isMute = true }
        switch kind {
        case .cutInSilence: return
        case .cutWithoutGoodbye: return connection.breakOff()
        case .brokenTLS: connection.sendBelowTLS(dice.bytes(dice.roll(1...600)))
        case .cut: return close(connection)
        default: break
        }
        if !late.isEmpty { answerWell(late, on: connection) }
        guard !kind.isLegal else { return }
        connection.after(.milliseconds(Int64(dice.roll(1...40)))) { self.close($0) }
    }
}
