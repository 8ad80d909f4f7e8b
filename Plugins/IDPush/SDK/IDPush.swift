public import ChaparCore
public import ChaparIDPush
import Synchronization

/// IDPush as the seed's page has it: one device, a project id, a player id that is kept, five actions.
///
/// The asynchronous form is the main one; the callback forms and the seed's own spellings use it. Thread-safe: no lock
/// is held during a request or a callback.
public final class IDPush: Sendable {
    /// The result of an action.
    public struct Result: Sendable, Hashable {
        /// The error; nil when the action is done.
        public let error: IDPushActionError?
        /// The server's answer, also when something went wrong.
        public let data: JSONValue?
    }

    private struct State {
        var projectID = ""
        var isConfigured = false
        var playerID: String?
    }

    private let client: IDPushClient
    private let store: any PlayerIDStore
    private let device: @Sendable () -> DeviceFacts
    private let printLine: @Sendable (String) -> Void
    private let acceptsAny2xx: Bool
    private let state = Mutex(State())

    /// Makes a facade.
    ///
    /// - Parameters:
    ///   - client: The client that it sends through.
    ///   - store: Where the player id is kept over restarts.
    ///   - acceptsAny2xx: Whether any 2xx is as good as 200.
    ///   - device: The facts of this device, asked for at each action.
    ///   - print: Takes the sentences for the developer; by default they go to the standard output, as the seed has it.
    public init(
        client: IDPushClient,
        store: any PlayerIDStore = MemoryPlayerIDStore(),
        acceptsAny2xx: Bool = false,
        device: @escaping @Sendable () -> DeviceFacts = { DeviceFacts() },
        print: @escaping @Sendable (String) -> Void = { Swift.print($0) }
    ) {
        self.client = client
        self.store = store
        self.acceptsAny2xx = acceptsAny2xx
        self.device = device
        printLine = print
    }

    /// The project id in force; empty before a set-up.
    public var projectID: String { state.withLock { $0.projectID } }
    /// Whether a set-up has succeeded.
    public var isConfigured: Bool { state.withLock { $0.isConfigured } }

    /// Sets the project id, trimmed; a blank one changes nothing, and the developer gets a sentence about it.
    public func setup(projectID: String) {
        let trimmed = projectID.trimmed
        guard !trimmed.isEmpty else { return printLine(IDPushConfigureError.missingProjectID.description) }
        state.withLock { state in
            state.projectID = trimmed
            state.isConfigured = true
        }
    }

    /// The player id: from memory, else from the store, which is read until it has one.
    ///
    /// Never touches the network.
    public var playerID: String? {
        if let known = state.withLock({ $0.playerID }) { return known }
        do {
            guard let kept = try store.read(), !kept.isEmpty else { return nil }
            return state.withLock { state in
                if state.playerID == nil { state.playerID = kept }
                return state.playerID
            }
        } catch {
            printLine("IDPush: the player id cannot be read: \(error)")
            return nil
        }
    }

    /// Returns the player id; the seed's name for ``playerID``.
    public func getPlayerID() -> String? { playerID }

    /// Performs an action and returns its result, also after a cancellation.
    public func perform(_ action: IDPushAction) async -> Result {
        switch prepare(action) {
        case .failure(let error): fail(error)
        case .success(let request): await send(request, action)
        }
    }

    /// Performs an action and calls back exactly once: at once when nothing can be sent, else from a task.
    ///
    /// The task is the caller's to await, and may be ignored: it ends with the request's deadline.
    @discardableResult
    public func perform(
        _ action: IDPushAction,
        then callback: @escaping @Sendable (IDPushActionError?, JSONValue?) -> Void
    ) -> Task<Void, Never> {
        switch prepare(action) {
        case .failure(let error):
            let result = fail(error)
            callback(result.error, result.data)
            return Task {}  // Ended already.
        case .success(let request):
            return Task {
                let result = await self.send(request, action)
                callback(result.error, result.data)
            }
        }
    }

    private func prepare(_ action: IDPushAction) -> Swift.Result<IDPushRequest, IDPushActionError> {
        let (projectID, isConfigured) = state.withLock { ($0.projectID, $0.isConfigured) }
        guard isConfigured else { return .failure(.isNotConfigured) }
        return Swift.Result { () throws(IDPushActionError) in
            try IDPushRequest(
                action,
                projectID: projectID,
                playerID: action.isAddition ? nil : playerID,
                facts: device()
            )
        }
    }

    private func send(_ request: IDPushRequest, _ action: IDPushAction) async -> Result {
        let reply = await client.perform(request, for: action, acceptsAny2xx: acceptsAny2xx)
        if let id = reply.playerID { keep(id) }
        if let error = reply.error { return fail(error, reply.data) }
        return Result(error: nil, data: reply.data)
    }

    /// Stores a player id in memory and in the store, instead of the previous one.
    private func keep(_ playerID: String) {
        state.withLock { $0.playerID = playerID }
        do {
            try store.write(playerID)
        } catch {
            printLine("IDPush: the player id cannot be kept: \(error)")
        }
    }

    @discardableResult
    private func fail(_ error: IDPushActionError, _ data: JSONValue? = nil) -> Result {
        printLine(error.description)
        return Result(error: error, data: data)
    }
}

/// The seed's spellings, over one shared instance, so that code written for the pod compiles.
extension IDPush {
    private static let box = Mutex<(instance: IDPush?, projectID: String?)>((nil, nil))

    /// The instance behind the static spellings; nil until a program sets it.
    ///
    /// A project id that was set up before counts for it, unless it has one already.
    public static var shared: IDPush? {
        get { box.withLock { $0.instance } }
        set {
            let projectID = box.withLock { box in
                box.instance = newValue
                return box.projectID
            }
            if let newValue, let projectID, !newValue.isConfigured { newValue.setup(projectID: projectID) }
        }
    }

    /// Calls ``setup(projectID:)`` of the shared instance; without an instance the project id is stored until there is
    /// one.
    public static func Setup(projectID: String) {  // swift-format-ignore: AlwaysUseLowerCamelCase
        if let shared { return shared.setup(projectID: projectID) }
        let trimmed = projectID.trimmed
        guard !trimmed.isEmpty else { return print(IDPushConfigureError.missingProjectID.description) }
        box.withLock { $0.projectID = trimmed }
    }

    /// Returns ``playerID`` of the shared instance.
    public static func GetPlayerID() -> String? {  // swift-format-ignore: AlwaysUseLowerCamelCase
        shared?.playerID
    }

    /// Calls ``perform(_:then:)`` of the shared instance, with the server's answer in Swift's own types: `[String:
    /// Any]` and so on.
    ///
    /// Without an instance nothing can be sent: the error is printed and called back like any other.
    public static func Perform(  // swift-format-ignore: AlwaysUseLowerCamelCase
        action: IDPushAction,
        then callback: @escaping @Sendable (IDPushActionError?, Any?) -> Void
    ) {
        guard let shared else {
            let isSetUp = box.withLock { $0.projectID != nil }
            let error: IDPushActionError =
                isSetUp ? .custom(message: "set IDPush.shared first: it says how requests are sent") : .isNotConfigured
            print(error.description)
            return callback(error, nil)
        }
        shared.perform(action) { error, data in callback(error, data?.plain) }
    }
}

/// The reason why a set-up did nothing, which only the developer gets.
enum IDPushConfigureError: Error, CustomStringConvertible {
    case missingProjectID

    var description: String { "IDPush: the project id is empty" }
}
