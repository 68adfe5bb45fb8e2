"""The main job: one seeded batch of real jobs under two policies, watched live, with a picture at the end."""
