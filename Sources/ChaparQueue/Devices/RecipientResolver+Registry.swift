public import ChaparComposition
public import ChaparCore

extension RecipientResolver {
    /// Makes a resolver over a device registry: the locale, and the tokens that are alive in the order of `priority`.
    public init(
        _ store: any DeviceStore,
        priority: [TokenService] = TokenService.priority,
        deadline: Duration = .seconds(5)
    ) {
        self.init(
            deadline: deadline,
            devices: { ids in
                try await store.devices(ids).mapValues { device in
                    let live = device.tokens.filter(\.isAlive)
                    let first = priority.flatMap { service in live.filter { $0.token.service == service } }
                    let ordered = first + live.filter { !priority.contains($0.token.service) }
                    return ResolvedDevice(
                        kindTokens: ordered.map { KindToken(token: $0.token, kind: $0.kind) },
                        language: device.locale
                    )
                }
            }
        )
    }
}
