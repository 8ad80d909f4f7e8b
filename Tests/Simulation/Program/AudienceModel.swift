/// The registered devices that campaigns go to, and what clients did to them.
///
/// A device that a request without an answer was about is not judged any more, and nothing more is done to it.
struct AudienceModel {
    /// A device.
    struct Member {
        let name: String
        var user: String
        var tags: Set<String>
        var isSubscribed = true
        /// The number of its token: each registration has another one.
        var token = 0
        /// Whether a request that changes it is under way.
        var isChanging = true
        /// Whether such a request was not answered, so that what it is now is not known.
        var isDoubtful = false
        /// Whether it was removed, or its user erased.
        var isGone = false

        /// Whether it is surely as it is here.
        var isKnown: Bool { !isChanging && !isDoubtful && !isGone }

        /// The text of its token, as platforms get it.
        var tokenText: String { "\(name)-\(token)" }

        /// The texts of all tokens that it has had.
        var tokenTexts: [String] { (0...max(0, token)).map { "\(name)-\($0)" } }

        /// Its registration, without the braces.
        var fields: String {
            let tags = tags.sorted().map { "\"\($0)\"" }.joined(separator: ",")
            return #""user":"\#(user)","tags":[\#(tags)],"tokens":{"ios-apns":"\#(tokenText)"}"#
        }
    }

    /// The rule of a campaign's audience.
    enum Rule: Int, CaseIterable {
        case tag, anyTag, tagWithout, everyoneWithout, tagAndNot

        /// The recipients of a request.
        var recipients: String {
            switch self {
            case .tag: #"{"tags":{"any":["red"]}}"#
            case .anyTag: #"{"tags":{"any":["red","blue"]}}"#
            case .tagWithout: #"{"tags":{"all":["red"],"none":["blue"]}}"#
            case .everyoneWithout: #"{"everyone":true,"exclude":{"tag":"red"}}"#
            case .tagAndNot: #"{"audience":{"all":[{"tag":"blue"},{"not":{"tag":"red"}}]}}"#
            }
        }

        /// Whether a device gets the message.
        func holds(for member: Member) -> Bool {
            let (isRed, isBlue) = (member.tags.contains("red"), member.tags.contains("blue"))
            guard member.isSubscribed else { return false }
            return switch self {
            case .tag: isRed
            case .anyTag: isRed || isBlue
            case .tagWithout: isRed && !isBlue
            case .everyoneWithout: !isRed
            case .tagAndNot: isBlue && !isRed
            }
        }
    }

    /// The devices of a user.
    private static let devicesOfUser = 4
    /// No more devices are registered.
    static let most = 64

    private(set) var members: [Member] = []
    /// The users whose erasure was asked for.
    private(set) var erasedUsers: Set<String> = []

    /// The tags that a number stands for.
    static func tags(_ number: Int) -> Set<String> {
        Set((number & 1 != 0 ? ["red"] : []) + (number & 2 != 0 ? ["blue"] : []))
    }

    /// Adds devices whose registration is asked for.
    mutating func add(_ count: Int, tags number: Int) -> Range<Int> {
        let first = members.count
        for index in first..<min(first + count, Self.most) {
            let user = "w\(index / Self.devicesOfUser)"
            members.append(Member(name: "a\(index)", user: user, tags: Self.tags(number + index)))
        }
        return first..<members.count
    }

    /// Notes that a change of a known device is asked for.
    mutating func begin(_ index: Int) { members[index].isChanging = true }

    /// Ends such a change: it was made, or had no answer that says so.
    mutating func end(_ index: Int, isDone: Bool, _ change: (inout Member) -> Void = { _ in }) {
        members[index].isChanging = false
        if isDone { change(&members[index]) } else { members[index].isDoubtful = true }
    }

    /// Notes that the erasure of a user is asked for; gives the user's devices.
    mutating func beginErasure(of user: String) -> [Int] {
        erasedUsers.insert(user)
        let found = members.indices.filter { members[$0].user == user }
        for index in found { begin(index) }
        return found
    }
}
