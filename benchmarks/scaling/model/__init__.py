"""Many places of the balancer on a modelled machine: what becomes of the algorithm where no machine is at hand.

``tree`` is the work, ``machine`` the network and the cores, ``engine`` the discrete-event simulation in which the real
``glb.core.place.PlaceCore`` decides everything. Nothing here looks at a clock: a run depends on its arguments only.
"""
