print("chapar")
